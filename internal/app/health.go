package app

import (
	"strconv"
	"strings"

	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/web"
)

// health is what this process knows of what it depends on. It asks nobody.
func (s *Service) health() []web.Health {
	out := append([]web.Health{s.journalHealth(), s.executorHealth()}, s.systems()...)
	return append(out, s.catalogHealth(), s.slackHealth())
}

// systems is how those answer that runs ask.
func (s *Service) systems() (out []web.Health) {
	for _, x := range []struct {
		name  string
		heard *heard
	}{{"Prometheus", s.hearing.prometheus}, {kubernetes, s.hearing.kubernetes}, {s.hearing.deploys, s.hearing.deployers}} {
		if x.heard == nil {
			out = append(out, web.Health{Name: x.name, State: web.NotConfigured})
			continue
		}
		out = append(out, x.heard.health(x.name))
	}
	return out
}

func (s *Service) journalHealth() web.Health {
	x := web.Health{Name: "Journal", State: web.Healthy, Text: "entries: " + strconv.FormatUint(s.journal.Size(), 10)}
	var wrong []string
	for _, err := range []error{s.journal.Err(), s.room.check()} {
		if err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if f := s.retention.failure(); f != nil {
		wrong = append(wrong, "the last attempt to archive failed; responder journal status shows why")
	}
	if len(wrong) > 0 {
		x.State, x.Text = web.Failing, strings.Join(wrong, "; ")
	}
	return x
}

// executorHealth is whether runs can go on, and alerts can start them.
func (s *Service) executorHealth() web.Health {
	x := web.Health{Name: "Runs", State: web.Healthy, Text: runview.Count(len(s.library.set().All()), "playbook") + " in force"}
	full := s.executor.Full()
	switch err := s.executor.Ready(); {
	case err != nil:
		x.State, x.Text = web.Failing, err.Error()
	case len(s.library.set().All()) == 0:
		x.State, x.Text = web.Failing, "no playbook is loaded, so no alert starts a run"
	case full != "":
		x.State, x.Text = web.Failing, "alerts start no runs: "+full
	}
	return x
}

func (s *Service) catalogHealth() web.Health {
	x := web.Health{Name: "Services", State: web.Healthy}
	known, err := s.world.Known()
	if err != nil {
		x.State, x.Text = web.Failing, err.Error()
		return x
	}
	x.Text = runview.Count(len(known), "service")
	return x
}

// slackHealth is whether clicks come over Socket Mode. Over HTTP nothing tells how Slack is.
func (s *Service) slackHealth() web.Health {
	x := web.Health{Name: "Slack", State: web.Unknown, Text: "responder slack check asks it"}
	if s.slack == nil {
		return web.Health{Name: x.Name, State: web.NotConfigured}
	}
	if at := s.slack.socketState.Load(); at != nil && at.Connected {
		x.State, x.Text = web.Healthy, "clicks come over Socket Mode"
	} else if at != nil {
		x.State, x.Text = web.Failing, "no clicks come: Socket Mode is not connected"
		if at.Err != nil {
			x.Text += ": " + at.Err.Error()
		}
	}
	return x
}
