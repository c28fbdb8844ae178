// Package client asks a running service over its HTTP API, with the credential
// that flags or the environment name. A secret is not sent over plain http to
// another machine unless that is allowed.
package client
