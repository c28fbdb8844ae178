package gitops

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// Assignment is a variable and its new value.
type Assignment struct {
	Variable Variable
	Value    string
}

// SetAll changes variables in one edit, all or none: only the bytes of their values,
// or the lines that add them. It checks every edit: the file is parsed again and has
// exactly these changes, [Locate] finds the new values, and the kustomization builds
// the same objects as before but for them. It skips variables that
// already have the value. The errors are those of [Locate], and NothingToDo if all
// variables have their values.
func SetAll(files []File, t Target, all []Assignment) (Edit, error) {
	work := append([]File(nil), files...)
	var changes []Change
	var sites []*edit.Site
	for _, a := range all {
		if err := checkValue(a.Variable, a.Value); err != nil {
			return Edit{}, err
		}
		c, s, err := change(work, t, a.Variable, a.Value)
		if reason(err) == fault.NothingToDo && len(all) > 1 {
			continue
		}
		if err != nil {
			return Edit{}, err
		}
		changes, sites = append(changes, c), append(sites, s)
	}
	return edited(files, work, t, changes, sites)
}

// Unset removes a flag, to undo adding it. The error is NothingToDo if the flag is
// not set.
func Unset(files []File, t Target, v Variable) (Edit, error) {
	work := append([]File(nil), files...)
	s, err := resolve(work, t, v)
	switch {
	case err != nil:
		return Edit{}, plain(err)
	case s.Missing:
		return Edit{}, &fault.Error{Reason: fault.NothingToDo, Message: v.String() + " is not set"}
	case s.Unset == nil || s.File() == "":
		return Edit{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s:%d:%d: %s cannot be removed here: change its value", s.File(), s.Line, s.Column, v)}
	}
	cut, err := s.Unset()
	if err != nil {
		return Edit{}, plain(err)
	}
	if err := apply(work, s, cut); err != nil {
		return Edit{}, err
	}
	after, err := resolveKnown(work, t, v, "", result(s))
	if err != nil || !after.Missing {
		return Edit{}, s.Doc.Invalid(s.Node, "cannot be taken away safely: it would still be set elsewhere")
	}
	return edited(files, work, t, []Change{{Place: placeOf(s), From: s.Value}}, []*edit.Site{s})
}

// plain returns an error without what only this package uses.
func plain(err error) error {
	if several := new(ambiguousError); errors.As(err, &several) {
		return several.err
	}
	return err
}

func reason(err error) fault.Reason {
	if e := new(fault.Error); errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// change makes one change in work.
func change(work []File, t Target, v Variable, value string) (Change, *edit.Site, error) {
	s, err := resolveKnown(work, t, v, value, nil)
	if err != nil {
		return Change{}, nil, plain(err)
	}
	if takes(s, value) && !s.Missing || s.Value == value {
		return Change{}, nil, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s:%d:%d: %s is already %s", s.File(), s.Line, s.Column, v, value)}
	}
	cut, err := s.Set(value)
	if err != nil {
		return Change{}, nil, plain(err)
	}
	if err := apply(work, s, cut); err != nil {
		return Change{}, nil, err
	}
	after, err := resolveKnown(work, t, v, "", result(s))
	if err != nil {
		return Change{}, nil, plain(err)
	}
	gone := after.Missing && value == "false" && v.Switch
	if !gone && (after.Missing || !takes(after, value) || after.File() != s.File()) {
		return Change{}, nil, s.Doc.Invalid(s.Node, fmt.Sprintf("cannot be edited safely: %s would be %q afterwards, not %q", v, edit.Clip(after.Value), edit.Clip(value)))
	}
	return Change{Place: placeOf(s), From: s.Value, To: value}, s, nil
}

// takes reports whether a site has a value.
func takes(s *edit.Site, value string) bool {
	return s.Value == value || s.Object.Kind == edit.ValuesKind && sameRendered(s.Value, value)
}

// result returns the document of the file as the change left it.
func result(s *edit.Site) *edit.Document {
	return s.Doc.Top().Changed()
}

// apply makes the change in the file of work that it belongs to.
func apply(work []File, s *edit.Site, cut edit.Splice) error {
	for i := range work {
		if work[i].Path != s.Doc.File {
			continue
		}
		data, err := s.Doc.Apply(work[i].Data, cut)
		if err != nil {
			return err
		}
		work[i].Data = data
		return nil
	}
	return &fault.Error{Reason: fault.NotFound, Message: s.Doc.File + " is not in the tree"} // unreachable unless a caller mixes two trees
}

// edited returns the edit of the changes that were made at the sites.
func edited(before, after []File, t Target, changes []Change, sites []*edit.Site) (Edit, error) {
	if len(changes) == 0 {
		return Edit{}, &fault.Error{Reason: fault.NothingToDo, Message: "already as wanted"}
	}
	e := Edit{Place: changes[0].Place, From: changes[0].From, To: changes[0].To, More: changes[1:]}
	var err error
	if e.Rendered, e.Unbuilt, err = checkBuilt(before, after, t, sites); err != nil {
		return Edit{}, err
	}
	for i := range before {
		if !bytes.Equal(before[i].Data, after[i].Data) {
			e.Old, e.Files = append(e.Old, before[i]), append(e.Files, after[i])
		}
	}
	return e, nil
}

var number = regexp.MustCompile(`^-?[0-9]+(?:\.[0-9]+)?$`)

// noNumber matches the result of a calculation that failed.
var noNumber = regexp.MustCompile(`(?i)^[+-]?(?:nan|inf|infinity)$`)

// maxValue limits the bytes of a value.
const maxValue = 1024

// checkValue returns an error for a value that would change more than the variable.
func checkValue(v Variable, value string) error {
	refused := func(why string) error {
		return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("the value %q for %s %s", edit.Clip(value), v, why)}
	}
	switch {
	case value == "":
		return refused("is empty")
	case len(value) > maxValue:
		return refused(fmt.Sprintf("is longer than %d bytes", maxValue))
	case strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) || !unicode.IsPrint(r) }):
		return refused("has a line break or another control character")
	case noNumber.MatchString(value):
		return refused("is no number that anything can be set to")
	case strings.HasPrefix(value, "-") && !number.MatchString(value):
		return refused("would be another flag")
	case strings.ContainsAny(value, "$`;|&<>\\#") || strings.Contains(value, "{{"):
		return refused("has characters that a shell or a template would act on")
	case strings.ContainsAny(value, " \t") && !strings.ContainsAny(value[:1], "{["):
		return refused("has a space")
	}
	if v.Replicas {
		if n, err := strconv.Atoi(value); err != nil || n < 0 || n > 10_000 || strconv.Itoa(n) != value {
			return refused("is not a number of replicas from 0 to 10000")
		}
	}
	return nil
}
