{{- define "responder.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (default .Chart.Name .Values.nameOverride) .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name (default .Chart.Name .Values.nameOverride) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* Names of objects that belong to no namespace, and of bindings in the namespaces of others. Releases of the same name in
two namespaces must not share them. */}}
{{- define "responder.clusterName" -}}
{{- $name := include "responder.fullname" . -}}
{{- if eq $name .Release.Namespace }}{{ $name }}{{ else }}{{ $name }}-{{ .Release.Namespace }}{{ end }}
{{- end }}

{{- define "responder.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "responder.agentSelector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "responder.common" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | trimSuffix "_" | trimSuffix "." }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "responder.image" -}}
{{- $image := .image -}}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}{{ else }}{{ $image.repository }}:{{ default .appVersion $image.tag }}{{ end }}
{{- end }}

{{- define "responder.tokensSecret" -}}{{ default (printf "%s-tokens" (include "responder.fullname" .)) .Values.tokens.existingSecret }}{{- end }}
{{- define "responder.tlsSecret" -}}{{ default (printf "%s-tls" (include "responder.fullname" .)) .Values.tls.existingSecret }}{{- end }}
{{- define "responder.agentTLSSecret" -}}{{ default (printf "%s-agent-tls" (include "responder.fullname" .)) .Values.agent.tls.existingSecret }}{{- end }}

{{- /* The key of the certificate's CA in its Secret; empty: the system's certificate authorities are trusted. */}}
{{- define "responder.caKey" -}}
{{- if and (ne .Values.tls.caKey "ca.crt") (not .Values.tls.existingSecret) (not .Values.tls.certManager.enabled) }}
{{- fail "tls.caKey: the certificate that the chart generates has its CA in ca.crt; another key needs tls.existingSecret or tls.certManager.enabled" }}
{{- end }}
{{- .Values.tls.caKey }}
{{- end }}

{{- define "responder.agentCAKey" -}}
{{- if and (ne .Values.agent.tls.caKey "ca.crt") (not .Values.agent.tls.existingSecret) }}
{{- fail "agent.tls.caKey: the certificate of the agents has its CA in ca.crt; another key needs agent.tls.existingSecret" }}
{{- end }}
{{- .Values.agent.tls.caKey }}
{{- end }}

{{- /* Names that the certificate is for. */}}
{{- define "responder.dnsNames" -}}
{{- $name := include "responder.fullname" . }}
{{- toYaml (list (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s" $name .Release.Namespace) $name "localhost") }}
{{- end }}

{{- /* responder.yaml: the chart's own settings, and on top of them config. */}}
{{- define "responder.config" -}}
{{- $own := dict
  "listen" "0.0.0.0:8080"
  "listen_probes" "0.0.0.0:8081"
  "tls" (dict "cert_file" "/etc/responder-tls/tls.crt" "key_file" "/etc/responder-tls/tls.key")
  "journal" (dict "dir" "/var/lib/responder")
  "kubernetes" (dict "in_cluster" true)
  "auth" (dict
    "tokens" (list
      (dict "name" "alertmanager" "file" "/etc/responder-tokens/alertmanager" "scopes" (list "intake"))
      (dict "name" "prometheus" "file" "/etc/responder-tokens/prometheus" "scopes" (list "metrics"))
      (dict "name" "reader" "file" "/etc/responder-tokens/reader" "scopes" (list "read")))
    "basic" (list (dict "name" "page" "password_file" "/etc/responder-tokens/page" "scopes" (list "read")))) }}
{{- with .Values.signIn.oidc }}{{ if .issuer }}
{{- if not $.Values.config.external_url }}{{ fail "signIn.oidc needs config.external_url, to which the issuer sends people back" }}{{ end }}
{{- $page := dict "client_id" .clientID "scopes" .scopes }}
{{- if .existingSecret }}{{ $_ := set $page "client_secret_file" "/etc/responder-signin/client-secret" }}{{ end }}
{{- $_ := set $own.auth "oidc" (dict "issuer" .issuer "groups_claim" .groupsClaim "sign_in" $page
  "scopes" (list "read" "approve" "cancel" "pause" "unpause" "resolve" "release" "promote" "start")) }}
{{- with .allowedGroups }}{{ $_ := set $own.auth.oidc "allowed_groups" . }}{{ end }}
{{- end }}{{ end }}
{{- if .Values.playbooks }}{{ $_ := set $own "playbooks" (dict "dir" "/etc/responder-playbooks") }}{{ end }}
{{- if .Values.policy }}{{ $_ := set $own "policy" (dict "file" "/etc/responder/policy.yaml") }}{{ end }}
{{- if .Values.agent.enabled }}
{{- $_ := set $own "gpu" (dict "agents" (dict "enabled" true "namespace" .Release.Namespace
  "selector" (printf "app.kubernetes.io/name=%s-agent,app.kubernetes.io/instance=%s" (default .Chart.Name .Values.nameOverride) .Release.Name)
  "ca_file" "/etc/responder-agents/ca.crt" "token_file" "/etc/responder-agents/token")) }}
{{- end }}
{{- toYaml (mustMergeOverwrite $own (deepCopy .Values.config)) }}
{{- end }}

{{- /* Cloud metadata is out of reach whatever else is open. */}}
{{- define "responder.outside" -}}
- ipBlock: {cidr: 0.0.0.0/0, except: [169.254.0.0/16, 168.63.129.16/32, 100.100.100.200/32, 192.0.0.192/32]}
- ipBlock: {cidr: '::/0', except: ['fe80::/10', 'fd00:ec2::/32', 'fd20:ce::254/128']}
{{- end }}

{{- define "responder.podSecurity" -}}
{{- $set := dict }}
{{- range $field, $value := .Values.podSecurityContext }}{{ if not (kindIs "invalid" $value) }}{{ $_ := set $set $field $value }}{{ end }}{{ end }}
{{- toYaml $set }}
{{- end }}

{{- define "responder.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
