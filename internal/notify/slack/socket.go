package slack

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"github.com/inference-responder/responder/internal/fault"
)

const (
	readLimit    = 1 << 20          // bytes of one envelope
	envelopeLife = 30 * time.Minute // Slack has been seen to repeat an envelope after six minutes

	handOverWithin = 2 * time.Second // how long both connections stay open; Slack wants its answers within three seconds
)

// SocketState is the state of the connection that [Receiver.RunSocket] reports.
type SocketState struct {
	Connected bool
	Err       error // why it is not connected, if known
}

// RunSocket keeps a Socket Mode connection until the context ends. It
// reconnects by itself, also after Slack refused the app token, because a token
// can become valid again. When the app token is renewed, the old connection
// stays until the new one is connected, so that no click is lost. watch is
// called with each change and must not block; it may be nil. RunSocket returns
// at once only if there is no app token.
func (r *Receiver) RunSocket(ctx context.Context, watch func(SocketState)) error {
	now := r.client.live.Load()
	if now.AppToken.Empty() {
		return errors.New("slack socket mode: missing app token (xapp-...) with connections:write")
	}
	if watch == nil {
		watch = func(SocketState) {}
	}
	var held sync.WaitGroup
	defer held.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leave := func() {} // closes every connection of an earlier token
	for now != nil {
		holding, end := context.WithCancel(ctx)
		h := &holder{Receiver: r, api: now.api, watch: watch, stands: handOver(leave)}
		held.Go(func() { h.hold(holding) })
		now = r.client.otherAppToken(ctx, now.AppToken)
		leave = func(before func()) func() { return func() { before(); end() } }(leave)
	}
	leave()
	return ctx.Err()
}

// handOver closes the connections of earlier tokens some time after its first
// call, so that what Slack has just sent over them is still received.
func handOver(leave func()) func() {
	return sync.OnceFunc(func() { time.AfterFunc(handOverWithin, leave) })
}

// holder keeps the connection of one app token.
type holder struct {
	*Receiver
	api    *slack.Client
	watch  func(SocketState)
	stands func() // called when it is connected
}

func (h *holder) hold(ctx context.Context) {
	for {
		err := classify("apps.connections.open", h.connect(ctx))
		if ctx.Err() != nil {
			return
		}
		pause := time.Second
		var e *fault.Error
		if errors.As(err, &e) && e.Reason == fault.BadToken {
			pause = time.Minute
		}
		h.watch(SocketState{Err: err})
		h.o.Logger.Warn("slack socket mode: connection ended", "err", err, "again_in", pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// connect runs the library's client, which reconnects after the failures it
// knows.
func (h *holder) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := socketmode.New(h.api, socketmode.OptionReadLimit(readLimit), socketmode.OptionDialer(h.dialer()))
	ended := make(chan error, 1)
	go func() { ended <- s.RunContext(ctx) }()
	for {
		select {
		case err := <-ended:
			return err
		case event := <-s.Events:
			h.event(ctx, s, event)
		}
	}
}

// dialer uses the proxy of the environment. The write buffer is larger than
// Slack's largest answer, which Slack wants in one frame.
func (r *Receiver) dialer() *websocket.Dialer {
	return &websocket.Dialer{
		Proxy: http.ProxyFromEnvironment, HandshakeTimeout: r.client.o.Timeout, WriteBufferSize: 32 << 10,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
}

func (h *holder) event(ctx context.Context, s *socketmode.Client, event socketmode.Event) {
	switch event.Type {
	case socketmode.EventTypeConnecting:
		h.watch(SocketState{})
	case socketmode.EventTypeHello:
		h.stands()
		h.watch(SocketState{Connected: true})
	case socketmode.EventTypeConnectionError:
		if failed, ok := event.Data.(*slack.ConnectionErrorEvent); ok {
			h.watch(SocketState{Err: classify("apps.connections.open", failed.ErrorObj)})
		}
	case socketmode.EventTypeErrorBadMessage:
		if bad, ok := event.Data.(*socketmode.ErrorBadMessage); ok {
			h.bad(ctx, s, bad.Message)
		}
	case socketmode.EventTypeInteractive, socketmode.EventTypeEventsAPI, socketmode.EventTypeSlashCommand:
		if event.Request != nil {
			h.envelope(ctx, s, event.Request)
		}
	}
}

// bad acknowledges an envelope that the library cannot read, because Slack
// would repeat it without end.
func (r *Receiver) bad(ctx context.Context, s *socketmode.Client, raw json.RawMessage) {
	var e struct {
		ID string `json:"envelope_id"`
	}
	if json.Unmarshal(raw, &e) != nil || e.ID == "" {
		return
	}
	r.ack(ctx, s, e.ID, nil)
	r.refused(Malformed, SocketMode, Click{}, "malformed envelope")
}

// envelope accepts one delivery and acknowledges it. Accepting only enqueues,
// so the acknowledgement is on time whatever the consumer does. The
// acknowledgement carries the result, because a dialog without a reason is
// answered by it.
func (r *Receiver) envelope(ctx context.Context, s *socketmode.Client, e *socketmode.Request) {
	now := time.Now()
	first, full := r.envelopes.first(e.EnvelopeID, now.Add(envelopeLife), now)
	switch {
	case !first && !full:
		r.ack(ctx, s, e.EnvelopeID, nil)
		r.refused(Replayed, SocketMode, Click{}, "the same envelope arrived before")
		return
	case e.Type != socketmode.RequestTypeInteractive:
		r.ack(ctx, s, e.EnvelopeID, nil)
		r.refused(UnknownAction, SocketMode, Click{}, "the envelope is not an interaction")
		return
	case full:
		r.refused(Busy, SocketMode, Click{}, "too many envelopes to detect repeats")
		return // unacknowledged: Slack sends it again
	}
	var answer any
	switch err := r.take(ctx, SocketMode, e.EnvelopeID, e.Payload, now); {
	case errors.Is(err, errNoReason):
		answer = reasonMissing()
	case because(err) == Unprepared:
		r.envelopes.forget(e.EnvelopeID)
		return // unacknowledged: Slack sends it again
	}
	r.ack(ctx, s, e.EnvelopeID, answer)
}

func (r *Receiver) ack(ctx context.Context, s *socketmode.Client, envelope string, answer any) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := s.AckCtx(ctx, envelope, answer); err != nil {
		r.o.Logger.Warn("slack socket mode: could not acknowledge", "err", err)
	}
}
