package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/notify/pagerduty"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/notify/webhook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/setting"
)

// Channel is one named place where people, or their systems, are told: one field
// for each kind of channel, of which exactly one is set.
type Channel struct {
	Name      string               `yaml:"name" doc:"What playbooks and policies call it: lower-case letters, digits and dashes."`
	Default   bool                 `yaml:"default" doc:"Gets everything that names no channel, and above all what needs a person. At least one channel has to be."`
	Webhook   *webhook.Config      `yaml:"webhook" doc:"Anything that takes CloudEvents 1.0."`
	PagerDuty *pagerduty.Config    `yaml:"pagerduty" doc:"A PagerDuty service with an Events API v2 integration."`
	Slack     *slack.ChannelConfig `yaml:"slack" doc:"A channel of the workspace that slack describes. It gets notices; questions go where slack.channel says."`
}

// Settings returns the settings of the channel; nil for a channel of Slack, which
// the workspace opens.
func (ch Channel) Settings() notify.Settings {
	set, _ := ch.kinds()
	for _, block := range set {
		if s, ok := block.(notify.Settings); ok {
			return s
		}
	}
	return nil
}

// kinds returns the kinds that are set, by name, and the names of all kinds.
func (ch Channel) kinds() (set map[string]setting.Block, names []string) {
	set = map[string]setting.Block{}
	v := reflect.ValueOf(ch)
	for i := range v.NumField() {
		block, ok := v.Field(i).Interface().(setting.Block)
		if !ok {
			continue
		}
		name := v.Type().Field(i).Tag.Get("yaml")
		if names = append(names, name); !v.Field(i).IsNil() {
			set[name] = block
		}
	}
	return set, names
}

// channelName matches the names of channels, as playbooks write them.
var channelName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// checkChannels reports what is wrong with the channels.
func (c *Config) checkChannels(bad setting.Report) {
	names, defaults := map[string]string{}, 0
	for i, ch := range c.Channels {
		path := fmt.Sprintf("channels[%d]", i)
		if !channelName.MatchString(ch.Name) {
			bad(path+".name", "lower-case letters, digits and dashes, beginning with a letter", "%q is not a channel's name", runview.Cut(ch.Name, 60))
		}
		if other, dup := names[ch.Name]; dup {
			bad(path+".name", "give each channel a name of its own", "%q is also the name of %s", ch.Name, other)
		}
		names[ch.Name] = path
		if ch.Default {
			defaults++
		}
		set, kinds := ch.kinds()
		for kind, block := range set {
			block.Check(path+"."+kind, bad)
		}
		if len(set) != 1 {
			bad(path, "keep one", "must be exactly one of %s", strings.Join(kinds, ", "))
		}
		if ch.Slack != nil && c.Slack == nil {
			bad(path+".slack", "set slack.token_file and the rest of slack", "there is no workspace to post to")
		}
	}
	if len(c.Channels) > 0 && defaults == 0 {
		bad("channels", "set default: true on the one that somebody reads", "none is the default: what needs a person would reach nobody")
	}
}

// SlackChannels returns every Slack channel that is posted to.
func (c *Config) SlackChannels() []string {
	all := []string{}
	if s := c.Slack; s != nil {
		all = append(all, s.Channel)
		for _, r := range s.Channels {
			all = append(all, r.Channel)
		}
	}
	for _, ch := range c.Channels {
		if ch.Slack != nil {
			all = append(all, ch.Slack.Channel)
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(id string) bool { return id == "" })
}
