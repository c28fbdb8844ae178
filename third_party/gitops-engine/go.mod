// A stand-in for Argo's gitops-engine: see README.md.
module github.com/argoproj/gitops-engine

go 1.26.0
