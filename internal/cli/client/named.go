package client

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/api"
)

// lenRunID is the length of the ID of a run.
const lenRunID = len("r-01JDXYZ0000000000000000000")

// leastOfID is how many letters of an ID mean a run: fewer are a slip.
const leastOfID = 4

// RunNamed returns the ID of the run that a name means: a whole ID, or a beginning of
// it that no other run has, with or without r-. A name that means no run is returned
// as it is, so that the server says so.
func (c *Client) RunNamed(ctx context.Context, name string) (string, error) {
	return OneRun(name, func(string) (ids []string, err error) {
		runs, err := c.RunsNamed(ctx, name)
		for _, r := range runs {
			ids = append(ids, r.Run)
		}
		return ids, err
	})
}

// OneRun is [Client.RunNamed] among the runs that list returns: the IDs with a beginning,
// newest first.
func OneRun(name string, list func(begin string) ([]string, error)) (string, error) {
	if len(name) >= lenRunID || len(strings.TrimPrefix(name, "r-")) < leastOfID {
		return name, nil
	}
	ids, err := list(beginning(name))
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0:
		return name, nil
	case len(ids) > 1:
		return "", fmt.Errorf("%q is the beginning of %d runs, the newest are %s and %s: write more of it", name, len(ids), ids[0], ids[1])
	}
	return ids[0], nil
}

// beginning returns a name as an ID begins: with r-, the rest in capital letters.
func beginning(name string) string {
	return "r-" + strings.ToUpper(strings.TrimPrefix(strings.ToLower(name), "r-"))
}

// RunsNamed returns the runs whose IDs begin so, the newest 1000 of them, newest first.
func (c *Client) RunsNamed(ctx context.Context, name string) ([]api.RunSummary, error) {
	return c.runsNamed(ctx, name, url.Values{})
}

// OpenRunsNamed is RunsNamed of the runs that have not ended.
func (c *Client) OpenRunsNamed(ctx context.Context, name string) ([]api.RunSummary, error) {
	return c.runsNamed(ctx, name, url.Values{"open": {"true"}})
}

func (c *Client) runsNamed(ctx context.Context, name string, query url.Values) ([]api.RunSummary, error) {
	begin := beginning(name)
	query.Set("limit", "1000")
	query.Set("begins", begin)
	var answer api.RunList
	if err := c.Get(ctx, RunsPath, query, &answer); err != nil {
		return nil, err
	}
	var out []api.RunSummary // a service of before does not select by the ID
	for _, r := range answer.Runs {
		if strings.HasPrefix(r.Run, begin) {
			out = append(out, r)
		}
	}
	// One that ends while it is listed is among the open ones and the ended ones.
	return slices.CompactFunc(out, func(a, b api.RunSummary) bool { return a.Run == b.Run }), nil
}
