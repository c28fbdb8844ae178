package config

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/notify/slack"
)

func TestChannelsConfiguration(t *testing.T) {
	for in, want := range map[string]string{
		"channels: [{name: a, webhook: {url: http://h}}]":                                                     "channels: none is the default",
		"channels: [{name: A b, default: true, webhook: {url: http://h}}]":                                    `channels[0].name: "A b" is not a channel's name`,
		"channels: [{name: a, default: true}]":                                                                "channels[0]: must be exactly one of",
		"channels: [{name: a, default: true, webhook: {url: http://h}, slack: {channel: C1}}]":                "channels[0]: must be exactly one of",
		"channels: [{name: a, default: true, webhook: {url: 'ftp://canary'}}]":                                "channels[0].webhook.url: is not a URL",
		"channels: [{name: a, default: true, webhook: {url: http://h, events: [run.began]}}]":                 `, not "run.began"`,
		"channels: [{name: a, default: true, pagerduty: {}}]":                                                 "channels[0].pagerduty.routing_key_file: must name a file",
		"channels: [{name: a, default: true, slack: {}}]":                                                     "channels[0].slack.channel: \"\" is not the id of a channel",
		"channels: [{name: a, default: true, slack: {channel: C0123}}]":                                       "channels[0].slack: there is no workspace",
		"channels: [{name: a, default: true, webhook: {url: http://h}}, {name: a, webhook: {url: http://h}}]": `"a" is also the name of channels[0]`,
		"silence: {enabled: true}":                                                                            "silence.alertmanager_url",
		"silence: {max: 48h}":                                                                                 "silence.max: must be from 1m to 24h",
		"external_url: responder":                                                                             "external_url",
		"notify: {url: http://h}":                                                                             `unknown field "notify"`,
	} {
		_, err := Parse("f.yaml", []byte("auth: {insecure: true}\n"+in))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s:\n got %v\nwant %s", in, err, want)
		}
	}
}

func TestSlackConfiguration(t *testing.T) {
	for in, want := range map[string]string{
		"slack: {channel: C0123}": "f.yaml:2:1: slack: clicks come over one transport",
		"slack: {app_token_file: a, signing_secret_file: b, token_file: t, channel: C0123}":  "slack: clicks come over one transport",
		"slack: {app_token_file: a, channel: C0123}":                                         "slack.token_file: must name a file",
		"slack: {app_token_file: a, token_file: t, channel: '#oncall'}":                      `slack.channel: "#oncall" is not the id of a channel`,
		"slack: {app_token_file: a, token_file: t}":                                          "slack.channel: no run would be shown",
		"slack: {app_token_file: a, token_file: t, channels: [{channel: C0123}]}":            "slack.channels[0]: fits every run",
		"slack: {app_token_file: a, token_file: t, channel: C0123, groups: [{handle: '@'}]}": "slack.groups[0]: needs handle and name",
		"slack: {app_token_file: a, token_file: t, channel: C0123, storm: {gates: -1}}":      "slack.storm: must not be negative",
		"slack: {app_token_file: a, token_file: t, channel: C0123, api_url: slack}":          "slack.api_url",
		"slack: {token: xoxb-canary}":                                                        `unknown field "token"`,
	} {
		_, err := Parse("f.yaml", []byte("auth: {insecure: true}\n"+in))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s:\n got %v\nwant %s", in, err, want)
		}
	}
	c := slack.Config{Channel: "C1", Channels: []slack.Route{{Service: "a", Playbook: "p", Channel: "C2"}, {Service: "a", Channel: "C3"}, {Playbook: "q", Channel: "C4"}}}
	for in, want := range map[[2]string]string{{"a", "p"}: "C2", {"a", "q"}: "C3", {"b", "q"}: "C4", {"b", "p"}: "C1"} {
		if got := c.ChannelOf(in[0], in[1]); got != want {
			t.Errorf("%v is shown in %s, want %s", in, got, want)
		}
	}
}
