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

// Refusal says why something that came from Slack, or claims to, was not
// handed on. It is also the metric's label.
type Refusal string

// The refusals.
const (
	BadSignature  Refusal = "bad_signature"
	Stale         Refusal = "stale"          // older than five minutes, or from the future
	Replayed      Refusal = "replayed"       // the same delivery again
	WrongApp      Refusal = "wrong_app"      // of another app
	WrongTeam     Refusal = "wrong_team"     // of another workspace
	UnknownAction Refusal = "unknown_action" // no button or dialog of ours
	TooLarge      Refusal = "too_large"
	Malformed     Refusal = "malformed"
	Busy          Refusal = "busy"       // the queue is full; the person was told to use the command line
	Unprepared    Refusal = "unprepared" // whose app this is could not be asked yet
	Panicked      Refusal = "panicked"   // the consumer's mistake
)

// Refused is one refusal. It holds nothing of the payload that could be secret
// or long: the names are empty unless the request is authentic.
type Refused struct {
	Reason    Refusal
	Transport Transport
	At        time.Time
	UserID    string
	Kind      Kind
	Detail    string
}

// ReceiverOptions say where clicks go.
type ReceiverOptions struct {
	// Consume gets every click, on one of Workers goroutines, after it was
	// acknowledged. It has as long as it likes; a dialog has to be opened
	// within three seconds of the click. Needed.
	Consume func(context.Context, Click)
	// Refused gets every refusal, at once and on the goroutine of the request:
	// it must not block. nil: nobody.
	Refused func(Refused)
	Workers int // 0: 8
	Queue   int // clicks that wait for a worker, 0: 256
	// BusyText is what a person reads whose click found the queue full. Empty:
	// a hint to the command line.
	BusyText string
	Logger   *slog.Logger // nil: none
}

// Receiver takes what people do in Slack. [Receiver.Run] must run for clicks to
// be consumed; both transports can be served at once.
type Receiver struct {
	o         ReceiverOptions
	client    *Client
	queue     chan Click
	busy      chan Click
	requests  seen[[32]byte]
	envelopes seen[string]
}

// NewReceiver makes a receiver of a client's clicks.
func NewReceiver(c *Client, o ReceiverOptions) (*Receiver, error) {
	if o.Consume == nil {
		return nil, errors.New("slack receiver: needs a consumer")
	}
	if o.Workers <= 0 {
		o.Workers = 8
	}
	if o.Queue <= 0 {
		o.Queue = 256
	}
	if o.BusyText == "" {
		o.BusyText = "Too many clicks at once: yours was not taken. Use the command line: responder approve, or responder deny."
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Receiver{
		o: o, client: c, queue: make(chan Click, o.Queue), busy: make(chan Click, 32),
		requests: seen[[32]byte]{max: maxKnown}, envelopes: seen[string]{max: maxKnown},
	}, nil
}

// Run consumes clicks until the context ends. What is queued then is consumed
// with a context that is over, so that it can at least be recorded.
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

// consume keeps one click's mistake from ending the service: the next click may
// be the one that stops an incident.
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
		r.o.Logger.Warn("slack click: could not say that it was not taken", "err", err)
	}
}

// take is what both transports do with an authentic payload. It gives an error
// for whatever is not a click of ours, after reporting it.
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
			err = refuse(Busy, "%d clicks wait already", cap(r.queue))
			select {
			case r.busy <- c:
			default: // so many that even saying so would be too much
			}
		}
	}
	if errors.As(err, &no) {
		r.refused(no.reason, by, c, no.message)
	}
	return err
}

// whose checks that the interaction is of our app in our workspace.
func (r *Receiver) whose(ctx context.Context, p payload, c Click) error {
	app, team := r.client.o.AppID, r.client.o.TeamID
	if app == "" || team == "" {
		ctx, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
		defer cancel()
		who, err := r.client.Identify(ctx)
		if err != nil || who.AppID == "" {
			return refuse(Unprepared, "whose app this is could not be asked: %v", err)
		}
		app, team = who.AppID, who.TeamID
	}
	switch {
	case p.APIAppID != app:
		return refuse(WrongApp, "the interaction is of app %q, not of ours", cut(visible(p.APIAppID), 40))
	case c.TeamID != team:
		return refuse(WrongTeam, "the interaction is of team %q, not of ours", cut(visible(c.TeamID), 40))
	}
	return nil
}

func (r *Receiver) refused(why Refusal, by Transport, c Click, detail string) {
	if r.o.Refused != nil {
		r.o.Refused(Refused{Reason: why, Transport: by, At: time.Now(), UserID: c.UserID, Kind: c.Kind, Detail: detail})
	}
}
