def goldens():
    return []
