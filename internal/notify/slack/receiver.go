package slack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Refusal is why a request that came from Slack, or claims to, was not
// accepted. It is also the metric's label.
type Refusal string

// The reasons of a [Refused].
const (
	BadSignature  Refusal = "bad_signature"
	Stale         Refusal = "stale"          // older than five minutes, or from the future
	Replayed      Refusal = "replayed"       // a repeated delivery
	WrongApp      Refusal = "wrong_app"      // of another app
	WrongTeam     Refusal = "wrong_team"     // of another workspace
	UnknownAction Refusal = "unknown_action" // not a button or dialog of ours
	TooLarge      Refusal = "too_large"
	Malformed     Refusal = "malformed"
	Busy          Refusal = "busy"       // the queue is full; the person was told to use the command line
	Unprepared    Refusal = "unprepared" // the app that owns the token is not known yet
	Panicked      Refusal = "panicked"   // the consumer panicked
)

// Refused is one refusal. It holds nothing of the payload that could be secret
// or long. The names are empty unless the request is authentic.
type Refused struct {
	Reason    Refusal
	Transport Transport
	At        time.Time
	UserID    string
	Kind      Kind
	Detail    string
}

// ReceiverOptions configure a [Receiver].
type ReceiverOptions struct {
	// Consume is called with every click, on one of Workers goroutines, after
	// the click was acknowledged. It may take any time; a dialog must be opened
	// within three seconds of the click. Required.
	Consume func(context.Context, Click)
	// Refused is called with every refusal, on the goroutine of the request, so
	// it must not block. It may be nil.
	Refused func(Refused)
	Workers int // 0: 8
	Queue   int // clicks that wait for a worker; 0: 256
	// BusyText is shown to a person whose click finds the queue full. Empty: a
	// hint to the command line.
	BusyText string
	Logger   *slog.Logger // nil: none
}

// Receiver receives interactions from Slack. [Receiver.Run] must run for clicks
// to be consumed. Both transports can be served at once.
type Receiver struct {
	o         ReceiverOptions
	client    *Client
	queue     chan Click
	busy      chan Click
	requests  seen[[32]byte]
	envelopes seen[string]
	bodies    unproven
	clicks    chan struct{} // one token for each body that may be verified and parsed
}

// NewReceiver returns a receiver of the clicks for a client's app.
func NewReceiver(c *Client, o ReceiverOptions) (*Receiver, error) {
	if o.Consume == nil {
		return nil, errors.New("slack receiver: missing Consume")
	}
	if o.Workers <= 0 {
		o.Workers = 8
	}
	if o.Queue <= 0 {
		o.Queue = 256
	}
	if o.BusyText == "" {
		o.BusyText = "Too many clicks at once: yours was not accepted. Use the command line: responder approve, or responder deny."
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Receiver{
		o: o, client: c, queue: make(chan Click, o.Queue), busy: make(chan Click, 32),
		requests: seen[[32]byte]{max: maxKnown}, envelopes: seen[string]{max: maxKnown},
		bodies: unproven{by: map[string]int{}, open: map[*unprovenBody]struct{}{}}, clicks: make(chan struct{}, maxClicks),
	}, nil
}

// Run consumes clicks until the context ends. Clicks that are still queued are
// then consumed with the ended context, so that they can be recorded.
func (r *Receiver) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for range r.o.Workers {
		wg.Go(func() { r.work(ctx) })
	}
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case c := <-r.busy:
				r.tellBusy(ctx, c)
			}
		}
	})
	wg.Wait()
	return ctx.Err()
}

func (r *Receiver) work(ctx context.Context) {
	for {
		select {
		case c := <-r.queue:
			r.consume(ctx, c)
		case <-ctx.Done():
			for {
				select {
				case c := <-r.queue:
					r.consume(ctx, c)
				default:
					return
				}
			}
		}
	}
}

// consume keeps a panic of the consumer from ending the service: the next click
// may be the one that stops an incident.
func (r *Receiver) consume(ctx context.Context, c Click) {
	defer func() {
		if p := recover(); p != nil {
			r.o.Logger.Error("slack click: the consumer panicked", "kind", string(c.Kind), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			r.refused(Panicked, c.Transport, c, "the consumer panicked")
		}
	}()
	r.o.Consume(ctx, c)
}

func (r *Receiver) tellBusy(ctx context.Context, c Click) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if c.Channel == "" {
		return
	}
	if err := r.client.Ephemeral(ctx, c.Channel, c.UserID, Notice{Text: r.o.BusyText}.Message()); err != nil {
		r.o.Logger.Warn("slack click: could not tell the person that it was not accepted", "err", err)
	}
}

// take processes an authentic payload of either transport. It reports whatever
// is not a click of ours and returns an error.
func (r *Receiver) take(ctx context.Context, by Transport, envelope string, raw []byte, at time.Time) error {
	p, c, err := parse(raw)
	c.Transport, c.Envelope = by, envelope
	if c.At.IsZero() {
		c.At = at
	}
	var no *refusal
	if !errors.As(err, &no) || no.reason != Malformed {
		if whose := r.whose(ctx, p, c); whose != nil {
			err = whose
		}
	}
	if err == nil {
		select {
		case r.queue <- c:
			return nil
		default:
			err = refuse(Busy, "%d clicks are already queued", cap(r.queue))
			select {
			case r.busy <- c:
			default: // even the answers would be too many
			}
		}
	}
	if errors.As(err, &no) {
		r.refused(no.reason, by, c, no.message)
	}
	return err
}

// whose checks that the interaction belongs to our app in our workspace.
func (r *Receiver) whose(ctx context.Context, p payload, c Click) error {
	app, team := r.client.o.AppID, r.client.o.TeamID
	if app == "" || team == "" {
		ctx, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
		defer cancel()
		who, err := r.client.Identify(ctx)
		if err != nil || who.AppID == "" {
			return refuse(Unprepared, "the app that owns the token is unknown: %v", err)
		}
		app, team = who.AppID, who.TeamID
	}
	switch {
	case p.APIAppID != app:
		return refuse(WrongApp, "the interaction is for app %q, not this one", cut(visible(p.APIAppID), 40))
	case c.TeamID != team:
		return refuse(WrongTeam, "the interaction is from team %q, not this one", cut(visible(c.TeamID), 40))
	}
	return nil
}

func (r *Receiver) refused(why Refusal, by Transport, c Click, detail string) {
	if r.o.Refused != nil {
		r.o.Refused(Refused{Reason: why, Transport: by, At: time.Now(), UserID: c.UserID, Kind: c.Kind, Detail: detail})
	}
}
