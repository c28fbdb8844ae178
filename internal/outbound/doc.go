// Package outbound makes the connections to other servers: HTTP clients that
// connect within a bounded time, limit what they read, follow no redirect and
// know their certificate authority. It also reads the secrets that are sent.
//
// Addresses in URLs that people configure may be refused: see [Allowed].
//
// It is a leaf: it imports nothing of this module. Every package that connects
// to something uses it.
package outbound
