module github.com/sallyport-dev/sallyport/sdk/go

go 1.25.0
