//go:build e2e

package rig

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a TCP proxy that a test can shut without taking the server
// from others.
type Proxy struct {
	Addr string // localhost:port

	target string
	listen string

	mu       sync.Mutex // guards what follows
	listener net.Listener
	accepted chan struct{} // closed once nothing more is accepted, and the port is free
	open     map[net.Conn]bool
}

// StartProxy starts a proxy to host:port.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	d := &Proxy{
		Addr: fmt.Sprintf("localhost:%d", port), listen: fmt.Sprintf("127.0.0.1:%d", port),
		target: target, open: map[net.Conn]bool{},
	}
	d.Open(t)
	t.Cleanup(d.Shut)
	return d
}

// Open lets connections in again.
func (d *Proxy) Open(t testing.TB) {
	t.Helper()
	var listener net.Listener
	// A program that is being started this moment still holds the port open.
	Await(t, 10*time.Second, "the proxy's port", func(context.Context) (bool, string) {
		var err error
		listener, err = net.Listen("tcp", d.listen)
		return err == nil, fmt.Sprint(err)
	})
	accepted := make(chan struct{})
	d.mu.Lock()
	d.listener, d.accepted = listener, accepted
	d.mu.Unlock()
	go func() {
		defer close(accepted)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // shut
			}
			go d.pass(listener, conn)
		}
	}()
}

// Shut ends all connections and refuses new ones.
func (d *Proxy) Shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener == nil {
		return
	}
	_ = d.listener.Close() // nothing else can be done about it
	<-d.accepted
	d.listener = nil
	for conn := range d.open {
		_ = conn.Close()
		delete(d.open, conn)
	}
}

// pass carries one connection. Either end that closes closes the other.
func (d *Proxy) pass(listener net.Listener, conn net.Conn) {
	defer conn.Close()
	server, err := net.Dial("tcp", d.target)
	if err != nil {
		return
	}
	defer server.Close()
	d.mu.Lock()
	if d.listener != listener { // shut meanwhile
		d.mu.Unlock()
		return
	}
	d.open[conn], d.open[server] = true, true
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.open, conn)
		delete(d.open, server)
	}()
	ended := make(chan struct{}, 2)
	carry := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // ends when either end closes
		ended <- struct{}{}
	}
	go carry(server, conn)
	go carry(conn, server)
	<-ended
}
