// A stand-in for go-grpc-middleware: see README.md.
module github.com/grpc-ecosystem/go-grpc-middleware

go 1.26.0

require (
	github.com/sirupsen/logrus v1.9.3
	google.golang.org/grpc v1.83.2
)
