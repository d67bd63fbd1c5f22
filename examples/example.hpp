// What the C++ examples share: exceptions for errors, and objects that give back what they hold.
#ifndef EXAMPLE_HPP
#define EXAMPLE_HPP

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

namespace example
{

inline void check(int code, const char *call)
{
    if (code != ACL_SUCCESS) {
        const char *message = aclGetRecentErrMsg();
        throw std::runtime_error(std::string(call) + ": " + std::to_string(code) + ": " +
                                 (message ? message : "no message"));
    }
}

#define CHECK(call) example::check((call), #call)

// aclInit to aclFinalize, device 0, one stream.
class Session
{
public:
    Session()
    {
        CHECK(aclInit(nullptr));
        CHECK(aclrtSetDevice(0));
        CHECK(aclrtCreateStream(&stream_));
    }
    ~Session()
    {
        aclrtDestroyStream(stream_);
        aclrtResetDevice(0);
        aclFinalize();
    }
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    aclrtStream stream() const { return stream_; }

private:
    aclrtStream stream_ = nullptr;
};

// A block of device memory; none for 0 bytes.
class Memory
{
public:
    explicit Memory(uint64_t bytes) : bytes_(bytes)
    {
        if (bytes > 0) {
            CHECK(aclrtMalloc(&address_, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
        }
    }
    ~Memory()
    {
        if (address_) {
            aclrtFree(address_);
        }
    }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    void *address() const { return address_; }
    uint64_t bytes() const { return bytes_; }

private:
    void *address_ = nullptr;
    uint64_t bytes_;
};

// A contiguous tensor of host type T with memory on the device.
template <class T> class Tensor
{
public:
    // An output: contents as they come.
    Tensor(aclDataType type, const std::vector<int64_t> &dims) : elems_(product(dims)), memory_(elems_ * sizeof(T))
    {
        handle_ = aclCreateTensor(dims.data(), dims.size(), type, nullptr, 0, ACL_FORMAT_ND, dims.data(), dims.size(),
                                  memory_.address());
        if (!handle_) {
            throw std::runtime_error("aclCreateTensor");
        }
    }
    Tensor(aclDataType type, const std::vector<int64_t> &dims, const std::vector<T> &values) : Tensor(type, dims)
    {
        CHECK(aclrtMemcpy(memory_.address(), memory_.bytes(), values.data(), values.size() * sizeof(T),
                          ACL_MEMCPY_HOST_TO_DEVICE));
    }
    ~Tensor() { aclDestroyTensor(handle_); }
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;

    const aclTensor *get() const { return handle_; }

    std::vector<T> read() const
    {
        std::vector<T> values(elems_);
        CHECK(aclrtMemcpy(values.data(), elems_ * sizeof(T), memory_.address(), memory_.bytes(),
                          ACL_MEMCPY_DEVICE_TO_HOST));
        return values;
    }

private:
    static size_t product(const std::vector<int64_t> &dims)
    {
        size_t elems = 1;
        for (const int64_t dim : dims) {
            elems *= static_cast<size_t>(dim);
        }
        return elems;
    }

    size_t elems_;
    Memory memory_;
    aclTensor *handle_ = nullptr;
};

class IntArray
{
public:
    explicit IntArray(const std::vector<int64_t> &values) : handle_(aclCreateIntArray(values.data(), values.size()))
    {
    }
    ~IntArray() { aclDestroyIntArray(handle_); }
    IntArray(const IntArray &) = delete;
    IntArray &operator=(const IntArray &) = delete;

    const aclIntArray *get() const { return handle_; }

private:
    aclIntArray *handle_;
};

inline void print(const char *name, const std::vector<float> &values)
{
    std::cout << name << ':';
    for (const float value : values) {
        std::cout << ' ' << value;
    }
    std::cout << '\n';
}

// Runs an example's body; what it throws becomes a message and exit status 1.
template <class Body> int run(Body body)
{
    try {
        body();
        return EXIT_SUCCESS;
    } catch (const std::exception &error) {
        std::cerr << error.what() << '\n';
        return EXIT_FAILURE;
    }
}

} // namespace example

#endif
