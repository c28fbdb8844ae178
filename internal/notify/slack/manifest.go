package slack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"go.yaml.in/yaml/v3"
)

// ManifestOptions describe the use of the app. Each option adds only the scopes
// it needs.
type ManifestOptions struct {
	Name      string    // of the bot; empty: "responder"
	Transport Transport // how clicks arrive
	URL       string    // of the interactivity endpoint, https; of HTTP only
	NoEmail   bool      // people are mapped by a list, so e-mail addresses are not read
	NoGroups  bool      // no user groups are used
	// NoPrivate leaves out private channels.
	NoPrivate bool
}

type manifest struct {
	Display  manifestDisplay  `json:"display_information" yaml:"display_information"`
	Features manifestFeatures `json:"features" yaml:"features"`
	OAuth    manifestOAuth    `json:"oauth_config" yaml:"oauth_config"`
	Settings manifestSettings `json:"settings" yaml:"settings"`
}

type manifestDisplay struct {
	Name        string `json:"name" yaml:"name"`
	Description string `json:"description" yaml:"description"`
}

type manifestFeatures struct {
	BotUser manifestBot `json:"bot_user" yaml:"bot_user"`
}

type manifestBot struct {
	DisplayName  string `json:"display_name" yaml:"display_name"`
	AlwaysOnline bool   `json:"always_online" yaml:"always_online"`
}

type manifestOAuth struct {
	Scopes manifestScopes `json:"scopes" yaml:"scopes"`
}

type manifestScopes struct {
	Bot []string `json:"bot" yaml:"bot"`
}

type manifestSettings struct {
	Interactivity manifestInteractivity `json:"interactivity" yaml:"interactivity"`
	OrgDeploy     bool                  `json:"org_deploy_enabled" yaml:"org_deploy_enabled"`
	SocketMode    bool                  `json:"socket_mode_enabled" yaml:"socket_mode_enabled"`
	TokenRotation bool                  `json:"token_rotation_enabled" yaml:"token_rotation_enabled"`
}

type manifestInteractivity struct {
	Enabled    bool   `json:"is_enabled" yaml:"is_enabled"`
	RequestURL string `json:"request_url,omitempty" yaml:"request_url,omitempty"`
}

// scopes returns the scopes of the bot token; each line names its use.
func scopes(o ManifestOptions) []string {
	s := []string{
		"channels:history", // find what was posted before a crash
		"channels:read",    // whether the app is in the channel, and whether it is archived
		"chat:write",       // post, edit and delete our own messages, answer one person
	}
	if !o.NoPrivate {
		s = append(s, "groups:history", "groups:read")
	}
	if !o.NoGroups {
		s = append(s, "usergroups:read") // members of platform-oncall
	}
	s = append(s, "users:read") // whether a user is an active person of this workspace
	if !o.NoEmail {
		s = append(s, "users:read.email")
	}
	return s
}

// Manifest returns the app manifest with the fewest scopes, as YAML, or as JSON
// if asJSON is set. Paste it at api.slack.com/apps, "From a manifest".
func Manifest(o ManifestOptions, asJSON bool) ([]byte, error) {
	if o.Name == "" {
		o.Name = "responder"
	}
	if size(o.Name) > 35 {
		return nil, errors.New("slack manifest: the name exceeds 35 characters")
	}
	m := manifest{
		Display:  manifestDisplay{Name: o.Name, Description: "Asks for approval before it changes an inference service, and shows what it did."},
		Features: manifestFeatures{BotUser: manifestBot{DisplayName: o.Name, AlwaysOnline: true}},
		OAuth:    manifestOAuth{Scopes: manifestScopes{Bot: scopes(o)}},
		Settings: manifestSettings{Interactivity: manifestInteractivity{Enabled: true}},
	}
	switch o.Transport {
	case SocketMode:
		m.Settings.SocketMode = true
	case HTTP:
		u, err := url.Parse(o.URL)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			return nil, errors.New("slack manifest: the http transport needs the https address of its interactivity endpoint")
		}
		m.Settings.Interactivity.RequestURL = o.URL
	default:
		return nil, fmt.Errorf("slack manifest: transport %q is not one of http, socket", o.Transport)
	}
	if asJSON {
		b, err := json.MarshalIndent(m, "", "  ")
		return append(b, '\n'), err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(m); err != nil {
		return nil, fmt.Errorf("encode slack manifest: %w", err)
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("encode slack manifest: %w", err)
	}
	return b.Bytes(), nil
}
