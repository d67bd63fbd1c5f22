# The curve of train_text as a picture:  gnuplot -e "curve='curve.csv'; picture='curve.svg'" curve.gp
set terminal svg size 900,420 font 'sans,13' background '#ffffff'
set output picture
set datafile separator ','
set title 'train_text: a byte-level language model, every operator through aclgrad' noenhanced
set xlabel 'step'
set ylabel 'loss, nats per byte'
set y2label 'indexer recall'
set ytics nomirror
set y2tics
set yrange [0:*]
set y2range [0:1]
set grid xtics ytics lc rgb '#dddddd'
set key bottom right opaque
weight = 0.1 # of the newest step in the running means
loss = NaN
recall = NaN
is_number(x) = x == x
smooth_loss(x) = (loss = is_number(loss) ? loss + weight * (x - loss) : x)
smooth_recall(x) = (recall = is_number(recall) ? recall + weight * (x - recall) : x)
plot curve using 1:2 skip 1 every 4 with dots lc rgb '#9db8d9' notitle, \
     curve using 1:5 skip 1 with lines lw 1 dt 2 lc rgb '#666666' title 'loss of guessing by frequency alone', \
     curve using 1:(smooth_loss($2)) skip 1 with lines lw 2 lc rgb '#1f4e8c' title 'loss (left)', \
     curve using 1:(smooth_recall($4)) skip 1 axes x1y2 with lines lw 2 lc rgb '#c0504d' title 'indexer recall (right)'
