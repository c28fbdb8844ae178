package policy

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/expression"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// activation is what CEL asks for the values of variables.
type activation = cel.Activation

// variable is a variable of conditions.
type variable struct {
	name, doc string
	fields    []expression.Field
}

const numVariables = 8

// variableIndex returns the index of a variable in declared; -1 if there is
// none.
func variableIndex(name string) int {
	switch name {
	case "service":
		return 0
	case "playbook":
		return 1
	case "state":
		return 2
	case "lever":
		return 3
	case "plan":
		return 4
	case "run":
		return 5
	case "time":
		return 6
	case "actor":
		return 7
	default:
		return -1
	}
}

// valueOf returns the value of a variable by its index.
func valueOf(i int, in *Input) any {
	switch i {
	case 0:
		return playbook.ServiceValue(in.Service)
	case 1:
		return playbookValue(in)
	case 2:
		return stateValue(in)
	case 3:
		return leverValue(in)
	case 4:
		return planValue(in)
	case 5:
		return runValue(in)
	case 6:
		return clockAt(in.Now)
	default:
		return actorValue(in)
	}
}

// declared returns the variables with their fields. levers lists the kinds of
// levers.
func declared(levers []string) [numVariables]variable {
	levels := []string{"observe", "suggest", "auto"}
	text, whole := expression.Type{Name: expression.String}, expression.Type{Name: expression.Int}
	truth, ratio := expression.Type{Name: expression.Bool}, expression.Type{Name: expression.Double}
	moment, span := expression.Type{Name: expression.Timestamp}, expression.Type{Name: expression.Duration}
	object := func(fields ...expression.Field) expression.Type {
		return expression.Type{Name: expression.Object, Fields: fields}
	}
	list := func(of expression.Type) expression.Type { return expression.Type{Name: expression.List, Elem: &of} }
	f := func(name string, t expression.Type, doc string, words ...string) expression.Field {
		return expression.Field{Name: name, Type: t, Doc: doc, Enum: words}
	}
	all := [numVariables]variable{
		{name: "service", doc: "The service, as in playbooks."},
		{name: "playbook", doc: "The playbook of the run."},
		{name: "state", doc: "The playbook's state: the state of the lever, or a gate."},
		{name: "lever", doc: "The kind of the change. A gate state changes nothing: its `kind` is empty, and it has no parameters."},
		{name: "plan", doc: "The change as planned now. For a gate state it is empty, and its effect on capacity is `unknown`."},
		{name: "run", doc: "The run."},
		{name: "time", doc: "When the lever would be applied, or the gate opened. `time.zone(\"Europe/Berlin\")` is the local time of a zone."},
		{name: "actor", doc: "Who decides. While nobody has decided, `name`, `door` and `groups` are empty: Responder itself would act."},
	}
	all[0].fields = playbook.ServiceFields()
	all[1].fields = []expression.Field{
		f("name", text, "Its name."), f("title", text, "Its title."), f("runbook", text, "The runbook it encodes."),
		f("digest", text, "sha256:..., of its document."), f("autonomy", text, "The level it sets.", levels...),
	}
	all[2].fields = []expression.Field{
		f("name", text, "Its name."), f("title", text, "Its title."),
		f("kind", text, "The kind of the state.", string(playbook.StateLever), string(playbook.StateGate)),
		f("autonomy", text, "The effective level before policy: the lowest of configuration, service, playbook and state.", levels...),
		f("always_asks", truth, "The playbook asks people at every level."),
	}
	all[3].fields = []expression.Field{
		f("kind", text, "E.g. `kube.scale`.", levers...),
		f("with", expression.Type{Name: expression.Map}, "Its parameters, evaluated."),
	}
	all[4].fields = []expression.Field{
		f("summary", text, "In one line."),
		f("risk", text, "The lever's own judgement.", string(machine.RiskLow), string(machine.RiskMedium), string(machine.RiskHigh)),
		f("why", text, "The reason for the risk."), f("undo", text, "What undo would restore, in words."),
		f("target", object(f("api_version", text, ""), f("kind", text, ""), f("namespace", text, ""), f("name", text, "")), "The object that is changed."),
		f("changes", list(object(f("path", text, "E.g. `spec.replicas`."), f("from", text, "Empty: added."), f("to", text, "Empty: removed."))), "The diff, field by field."),
		f("locks", list(text), "What it locks, e.g. `node:n1`."),
		f("pull_request", truth, "The change needs a pull request; false: it is pushed, or changes nothing in Git."),
		f("unrepeatable", truth, "It is applied once only, because a second attempt could do harm."),
		f("capacity", object(
			f("unknown", truth, "The effect is unknown. The numbers are then missing, and a rule that reads them denies."),
			f("ready_now", whole, "Ready replicas."), f("lowest_ready", whole, "Fewest while it is in progress."), f("ready_after", whole, "Afterwards."),
			f("lost_ready", whole, "`ready_now - lowest_ready`, at least 0."), f("lost_percent", ratio, "`lost_ready` in percent of `ready_now`."),
		), "Its effect on the serving replicas."),
	}
	all[5].fields = []expression.Field{
		f("id", text, "E.g. `r-01J...`."), f("by", text, "Who started it, e.g. `user:ada`; empty: an alert."), f("began", moment, "When it began."), f("age", span, "Since then."),
		f("levers", whole, "Levers it applied so far."), f("kept", whole, "Applied levers that were verified and kept."), f("asked", whole, "Questions put to people so far."),
		f("alerts", list(object(
			f("status", text, "", string(playbook.Firing), string(playbook.Resolved)),
			f("labels", expression.Type{Name: expression.Map, Elem: &text}, "Reading an absent label is an error: test with `\"team\" in a.labels`."),
			f("starts_at", moment, ""),
		)), "The alerts it works on."),
	}
	all[6].fields = []expression.Field{f("now", moment, "The time in UTC.")}
	all[7].fields = []expression.Field{
		f("name", text, "E.g. `user:ada`."), f("groups", list(text), "E.g. `ml-platform`."), f("door", text, "`api` (also the command line), `slack` or `web`.", "", "api", "slack", "web"),
	}
	return all
}

// zoneFields returns the fields of time.zone("...").
func zoneFields() []expression.Field {
	return []expression.Field{
		{Name: "weekday", Type: expression.Type{Name: expression.String}, Doc: "The day.", Enum: weekdays()},
		{Name: "hour", Type: expression.Type{Name: expression.Int}, Doc: "0 to 23."},
		{Name: "minute", Type: expression.Type{Name: expression.Int}, Doc: "0 to 59."},
		{Name: "date", Type: expression.Type{Name: expression.String}, Doc: "E.g. `2026-12-24`."},
	}
}

// weekdays returns the names of the days, indexed by time.Weekday.
func weekdays() []string {
	return []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}
}

// leversOf returns the names of the kinds that are levers.
func leversOf(kinds []playbook.Kind) []string {
	var levers []string
	for _, k := range kinds {
		if k.Role == playbook.RoleLever {
			levers = append(levers, k.Name)
		}
	}
	slices.Sort(levers)
	return levers
}

// scope returns the scope in which conditions are compiled.
func scope(kinds []playbook.Kind) (expression.Scope, error) {
	table, err := expression.NewTypes()
	if err != nil {
		return expression.Scope{}, err
	}
	all := declared(leversOf(kinds))
	opts := []cel.EnvOption{cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), zoneNames{})}
	names := make([]string, 0, len(all))
	for _, v := range all {
		t, err := table.Declare(v.name+".type", v.fields)
		if err != nil {
			return expression.Scope{}, err
		}
		opts = append(opts, cel.Variable(v.name, t))
		names = append(names, v.name)
	}
	zone, err := table.Declare("zone.type", zoneFields())
	if err != nil {
		return expression.Scope{}, err
	}
	opts = append(opts, cel.Function("zone", cel.MemberOverload("time_zone", []*cel.Type{cel.ObjectType("time.type"), cel.StringType}, zone, cel.BinaryBinding(new(zones).in))))
	env, err := table.Environment(opts...)
	if err != nil {
		return expression.Scope{}, err
	}
	return expression.Scope{
		Env: env, Types: table, Flat: []string{"zone"},
		Variable: func(name string) ([]expression.Field, bool) {
			i := variableIndex(name)
			if i < 0 {
				return nil, false
			}
			return all[i].fields, true
		},
		Hint: func(name string) string {
			if name == "now" {
				return "write time.now"
			}
			return yamldoc.DidYouMean(name, names)
		},
	}, nil
}

// zones caches the time zones that conditions named: loading one takes longer
// than a rule may. There are about 600, so the cache is bounded.
type zones struct{ known sync.Map }

// in implements time.zone(name).
func (z *zones) in(at, name ref.Val) ref.Val {
	c, ok := at.(*clock)
	text, isText := name.(types.String)
	if !ok || !isText {
		return types.NewErr("zone() is a function of time and takes a text")
	}
	if v := c.local[string(text)]; v != nil {
		return v
	}
	zone, err := z.load(string(text))
	if err != nil {
		return types.NewErr("%s", err.Error())
	}
	local := c.now.In(zone)
	c.local[string(text)] = types.DefaultTypeAdapter.NativeToValue(map[string]any{
		"weekday": weekdays()[local.Weekday()], "hour": int64(local.Hour()), "minute": int64(local.Minute()), "date": local.Format(time.DateOnly),
	})
	return c.local[string(text)]
}

func (z *zones) load(name string) (*time.Location, error) {
	if known, ok := z.known.Load(name); ok {
		zone, _ := known.(*time.Location)
		return zone, nil
	}
	zone, err := loadZone(name)
	if err == nil {
		z.known.Store(name, zone)
	}
	return zone, err
}

// loadZone loads a time zone by name. An empty name and Local depend on the
// machine and are refused.
func loadZone(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("unknown time zone %q: use a name such as Europe/Berlin or UTC", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("unknown time zone %q: use a name such as Europe/Berlin or UTC", yamldoc.Clip(name))
	}
	return zone, nil
}
