package proposal

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// Edit fills in the proposal that sets variables: all or nothing. Variables that already
// have the wanted value are left.
func (r Reading) Edit(p *gitops.Proposal, w gitops.Want) error {
	files, t := r.Files, r.Target(w.Target)
	touch := func(v gitops.Variable, to string) error {
		places, err := gitops.Locate(files, t, v)
		if err != nil {
			return err
		}
		from := places[0]
		if from.Value != to {
			p.Touches = append(p.Touches, gitops.Touch{
				Variable: v.String(), File: from.File, Line: from.Line, Path: from.Path, From: from.Value, To: to, Unknown: from.Unknown,
				Kind: from.Kind, Name: from.Name, Container: from.Container, Form: from.Form, Switch: v.Switch,
			})
		}
		return nil
	}
	var edits []gitops.Edit
	if len(w.Set) > 0 {
		e, err := gitops.SetAll(files, t, w.Set)
		if err != nil {
			return err
		}
		edits = append(edits, e)
	}
	for _, a := range w.Set {
		if err := touch(a.Variable, a.Value); err != nil {
			return err
		}
	}
	for _, v := range w.Unset {
		e, err := gitops.Unset(overlaid(files, edits), t, v)
		if err != nil {
			return err
		}
		edits = append(edits, e)
		if err := touch(v, ""); err != nil {
			return err
		}
	}
	for _, e := range edits {
		p.Unbuilt = cmp.Or(p.Unbuilt, e.Unbuilt)
		p.Rendered = append(p.Rendered, e.Rendered...)
	}
	after := overlaid(files, edits)
	for i, f := range files {
		if !bytes.Equal(f.Data, after[i].Data) {
			p.Old, p.Files = append(p.Old, f), append(p.Files, after[i])
		}
	}
	p.Manifests, p.Plain = gitops.Plain(files, after, t)
	if len(edits) == 0 {
		return &fault.Error{Reason: fault.Invalid, Message: "nothing to set is named"}
	}
	return nil
}

// overlaid returns files with edits applied.
func overlaid(files []gitops.File, edits []gitops.Edit) []gitops.File {
	out := slices.Clone(files)
	for _, e := range edits {
		for _, f := range e.Files {
			i := slices.IndexFunc(out, func(o gitops.File) bool { return o.Path == f.Path })
			if i < 0 {
				out = append(out, f)
				continue
			}
			out[i] = f
		}
	}
	return out
}
