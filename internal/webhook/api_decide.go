package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
)

const (
	maxRequest = 64 << 10 // bytes of a decision's body
	maxReason  = 2000     // characters
)

// The decisions about a run, which are the last element of their paths.
const (
	verbApprove = "approve"
	verbDeny    = "deny"
	verbReplan  = "replan"
	verbCancel  = "cancel"
	verbProceed = "proceed"
	verbResolve = "resolve"
	verbRelease = "release"
)

func verbs() []string {
	return []string{verbApprove, verbDeny, verbReplan, verbCancel, verbProceed, verbResolve, verbRelease}
}

// rightOf returns the right that a decision takes.
func rightOf(verb string) rights.Right { return machine.RightOf(commandKind(verb)) }

// decides passes a decision to the run and answers with the run after it. The run
// checks whether the person may decide and whether the plan is still the same.
func (s *Server) decides(verb string) handler {
	return func(c echo.Context, id Identity) error {
		var req api.DecisionRequest
		if err := decodeRequest(c, &req, &req.Reason); err != nil {
			return err
		}
		who, channel := id, "api"
		if req.As != "" {
			if err := checkDecision(verb, req); err != nil {
				return err
			}
			var err error
			if who, err = s.standIn(id, c.Param("id"), req.As); err != nil {
				return err
			}
			channel = "sandbox"
		}
		if err := s.decide(c, verb, who, channel, req); err != nil {
			return err
		}
		return s.showRun(c, id)
	}
}

// decide handles the decisions of the API and the page. The CLI is a client of the
// API like any other: nothing that it sends proves what it is.
func (s *Server) decide(c echo.Context, verb string, id Identity, channel string, req api.DecisionRequest) error {
	if err := checkDecision(verb, req); err != nil {
		return err
	}
	cmd := machine.Command{Kind: commandKind(verb), Now: time.Now().UTC(), Decision: &machine.Decision{
		Gate: req.Gate, Digest: req.Digest, By: "user:" + id.Name, Groups: id.Groups, Person: id.Person,
		Channel: channel, Strong: id.Strong, BreakGlass: req.BreakGlass, Reason: req.Reason,
		Approve: verb == verbApprove || req.Applied != nil && *req.Applied,
	}}
	if s.o.Control == nil {
		return ErrNotFound
	}
	if _, err := s.run(c.Param("id")); err != nil {
		return err
	}
	return s.o.Control.Command(c.Request().Context(), c.Param("id"), cmd)
}

func commandKind(verb string) machine.CommandKind {
	switch verb {
	case verbReplan:
		return machine.CmdReplan
	case verbCancel:
		return machine.CmdCancel
	case verbProceed:
		return machine.CmdProceed
	case verbResolve:
		return machine.CmdResolve
	case verbRelease:
		return machine.CmdRelease // of a quarantined run, which takes no other command
	default:
		return machine.CmdDecide
	}
}

// checkDecision refuses fields that the verb does not take and missing ones that it needs.
func checkDecision(verb string, r api.DecisionRequest) error {
	plain := r.Digest == "" && r.Gate == "" && !r.BreakGlass
	needsReason := false
	if r.As != "" && verb != verbApprove && verb != verbDeny {
		return invalid("as", "only approve and deny take it")
	}
	switch verb {
	case verbApprove, verbDeny:
		switch {
		case r.Applied != nil:
			return invalid("applied", "only resolve takes it")
		case r.BreakGlass && verb == verbDeny:
			return invalid("breakGlass", "only approve takes it: everyone who is asked can deny alone")
		case verb == verbDeny || r.BreakGlass:
			needsReason = true
		}
	case verbReplan:
		if r.Applied != nil || r.BreakGlass {
			return invalid("", "replan takes gate, digest and reason only")
		}
	case verbResolve:
		if r.Applied == nil {
			return invalid("applied", "missing: true if the change is made, false if it is not")
		}
		if !plain {
			return invalid("", "resolve takes applied and reason only")
		}
		needsReason = true
	default: // cancel, proceed, release
		if r.Applied != nil || !plain {
			return invalid("", verb+" takes reason only")
		}
		needsReason = true
	}
	if needsReason && r.Reason == "" {
		return invalid("reason", "missing")
	}
	return nil
}

func (s *Server) listPauses(c echo.Context, _ Identity) error { return s.replyPauses(c, "") }

func (s *Server) replyPauses(c echo.Context, note string) error {
	if s.o.Pauses == nil {
		return ErrNotFound
	}
	list := api.PauseList{Pauses: []api.Pause{}, Note: note}
	for _, p := range s.o.Pauses.Pauses() {
		list.Pauses = append(list.Pauses, api.Pause{
			Scope: p.Scope(), Service: p.Service, Playbook: p.Playbook, Intake: p.Intake, Since: p.Since.UTC(), By: p.By, Reason: p.Reason,
		})
	}
	return reply(c, list)
}

// unknownName returns a note if no service or playbook has the name in req. The
// pause is not refused: a catalog that is read from the cluster may lack the
// service for now. The note keeps people from believing that something is paused.
func (s *Server) unknownName(req api.PauseRequest) string {
	switch {
	case req.Service != "" && s.o.Services != nil &&
		!slices.ContainsFunc(s.o.Services(), func(v playbook.Service) bool { return v.Name == req.Service }):
		return fmt.Sprintf("no service in the catalog is named "+holdsUp, req.Service)
	case req.Playbook != "" && s.o.Playbooks != nil && s.o.Playbooks().ByName(req.Playbook) == nil:
		return fmt.Sprintf("no loaded playbook is named "+holdsUp, req.Playbook)
	default:
		return ""
	}
}

const holdsUp = "%q: the pause stops nothing now, and holds if one with this name appears"

func (s *Server) setPause(c echo.Context, id Identity) error {
	var req api.PauseRequest
	if err := decodeRequest(c, &req, &req.Reason); err != nil {
		return err
	}
	if req.Reason == "" {
		return invalid("reason", "missing")
	}
	if err := checkPause(req); err != nil {
		return err
	}
	if s.o.Pauses == nil {
		return ErrNotFound
	}
	if err := s.o.Pauses.Pause(c.Request().Context(), id.Actor(), pauseBy(req, id)); err != nil {
		return err
	}
	return s.replyPauses(c, s.unknownName(req))
}

func (s *Server) liftPause(c echo.Context, id Identity) error {
	req := api.PauseRequest{Service: c.QueryParam("service"), Playbook: c.QueryParam("playbook"), Reason: c.QueryParam("reason")}
	if text := c.QueryParam("intake"); text != "" {
		var err error
		if req.Intake, err = strconv.ParseBool(text); err != nil {
			return invalid("intake", "want true or false")
		}
	}
	if c.Request().ContentLength != 0 {
		if c.Request().URL.RawQuery != "" {
			return invalid("", "name the pause in the query or in the body, not in both")
		}
		if err := decodeRequest(c, &req, &req.Reason); err != nil {
			return err
		}
	}
	if err := errors.Join(checkReason(req.Reason), checkPause(req)); err != nil {
		return err
	}
	if s.o.Pauses == nil {
		return ErrNotFound
	}
	if err := s.o.Pauses.Unpause(c.Request().Context(), id.Actor(), pauseBy(req, id)); err != nil {
		return err
	}
	return s.listPauses(c, id)
}

// checkPause refuses a scope with two meanings.
func checkPause(r api.PauseRequest) error {
	if r.Intake && (r.Service != "" || r.Playbook != "") {
		return invalid("intake", "cannot be combined with service or playbook: a notification is refused before they are known")
	}
	return nil
}

func pauseBy(r api.PauseRequest, id Identity) Pause {
	return Pause{Service: r.Service, Playbook: r.Playbook, Intake: r.Intake, By: "user:" + id.Name, Reason: r.Reason, Since: time.Now().UTC()}
}

// decodeRequest reads a small JSON object strictly, and trims and checks the
// reason in it. No body is an empty object.
func decodeRequest(c echo.Context, to any, reason *string) error {
	data, err := io.ReadAll(http.MaxBytesReader(nil, c.Request().Body, maxRequest))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return problem(http.StatusRequestEntityTooLarge, "too_large", "the body is larger than "+strconv.Itoa(maxRequest)+" bytes", "")
	case err != nil:
		return problem(http.StatusBadRequest, "incomplete", "the body ended early", "")
	case len(data) == 0:
		return nil
	case !utf8.Valid(data):
		return invalid("body", "invalid UTF-8")
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return invalid("body", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalid("body", "has data after the JSON object")
	}
	if name := doubled(data); name != "" {
		return invalid("body", "has the field "+strconv.Quote(name)+" twice")
	}
	*reason = strings.TrimSpace(*reason) // one of blanks only is empty
	return checkReason(*reason)
}

// doubled returns a field that a valid JSON object has twice, in any case of its letters;
// empty: none.
func doubled(object []byte) string {
	d := json.NewDecoder(bytes.NewReader(object))
	_, _ = d.Token() // its brace: it is valid
	for seen := []string{}; d.More(); {
		token, _ := d.Token()
		name, _ := token.(string)
		if slices.ContainsFunc(seen, func(s string) bool { return strings.EqualFold(s, name) }) {
			return name
		}
		seen = append(seen, name)
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return "" // unreachable: it is valid
		}
	}
	return ""
}

// checkReason keeps reasons short and printable, because they are shown everywhere.
func checkReason(reason string) error {
	if utf8.RuneCountInString(reason) > maxReason {
		return invalid("reason", "longer than "+strconv.Itoa(maxReason)+" characters")
	}
	if strings.ContainsFunc(reason, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
		return invalid("reason", "has control characters")
	}
	return nil
}
