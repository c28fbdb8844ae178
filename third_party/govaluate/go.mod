// A stand-in for govaluate: see README.md.
module github.com/casbin/govaluate

go 1.26.0
