{{/* What the pods of a component are labelled with, and selected by. */}}
{{- define "medley.labels" -}}
app.kubernetes.io/name: medley
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- define "medley.image" -}}
image: "{{ required "image.repository: must be given" .Values.image.repository }}:{{ required "image.tag: must be given" .Values.image.tag }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "medley.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* A program's configuration: .given, with .fixed, which is the chart's to say; .where names .given. */}}
{{- define "medley.configuration" -}}
{{- range $field := concat (keys .fixed) (list "tls" "http_address") }}
{{- if hasKey $.given $field }}
{{- fail (printf "%s.%s: is the chart's to say" $.where $field) }}
{{- end }}
{{- end }}
{{- toYaml (merge (deepCopy .given) .fixed) }}
{{- end }}

{{/* A ConfigMap's name ends with a hash of its contents, kustomize's, so that what it configures starts anew when it changes.
     .name, .data: its data. */}}
{{- define "medley.hashedName" -}}
{{- $digits := dict "data" .data "kind" "ConfigMap" "name" "" | toJson | sha256sum | trunc 10 -}}
{{- range $pair := list "0g" "1h" "3k" "am" "et" }}
{{- $digits = replace (substr 0 1 $pair) (substr 1 2 $pair) $digits }}
{{- end }}
{{- printf "%s-%s" .name $digits }}
{{- end }}

{{/* Probes of the port .port: of gRPC's health service, or with .tls by HTTPS, since Kubernetes' gRPC probes speak no TLS. The program
     may take .startSeconds to listen. */}}
{{- define "medley.probes" -}}
{{- $ask := dict "grpc" (dict "port" .port) }}
{{- if .tls }}
{{- $ask = dict "httpGet" (dict "path" "/healthz" "port" .port "scheme" "HTTPS") }}
{{- end -}}
startupProbe:
  {{- toYaml $ask | nindent 2 }}
  periodSeconds: 2
  failureThreshold: {{ div .startSeconds 2 }}
readinessProbe:
  {{- toYaml $ask | nindent 2 }}
  periodSeconds: 5
livenessProbe:
  {{- toYaml $ask | nindent 2 }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end }}

{{/* Variables, which go before the configuration's file, of a program whose prefix is .prefix and whose HTTPS port is .port. */}}
{{- define "medley.tlsVariables" -}}
- {name: {{ .prefix }}_INSECURE, value: "false"}
- name: {{ .prefix }}_TLS
  value: "{certificate: /run/medley-tls/tls.crt, key: /run/medley-tls/tls.key, authority: /run/medley-tls/ca.crt}"
- {name: {{ .prefix }}_HTTP_ADDRESS, value: "0.0.0.0:{{ .port }}"}
{{- end }}

{{- define "medley.tlsMount" -}}
- {name: tls, mountPath: /run/medley-tls, readOnly: true}
{{- end }}

{{- define "medley.tlsVolume" -}}
- name: tls
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}

{{- define "medley.claim" -}}
{{ .Values.data.existingClaim | default "data" }}
{{- end }}

{{/* What agents have: .given over .defaults. */}}
{{- define "medley.agent" -}}
{{- $agent := deepCopy .defaults }}
{{- range $field, $value := .given }}
{{- if eq $field "resources" }}
{{- $value = mergeOverwrite (deepCopy $agent.resources) $value }}
{{- end }}
{{- $_ := set $agent $field $value }}
{{- end }}
{{- toYaml $agent }}
{{- end }}

{{/* The ConfigMap of the agents .name, which are configured by .agent; .where names them in the values, .root is the chart's. */}}
{{- define "medley.agentConfigMap" -}}
{{- $fixed := dict "name" "@NODE_NAME@" "coordinator_address" "coordinator:7070" "listen_address" "@POD_ADDRESS@:7071" "insecure" true }}
{{- $text := include "medley.configuration" (dict "given" .agent.configuration "fixed" $fixed "where" (printf "%s.configuration" .where)) }}
{{- $data := dict "agent-configuration.yaml" (printf "%s\n" $text) -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "medley.hashedName" (dict "name" .name "data" $data) }}
  namespace: {{ .root.Release.Namespace }}
  {{- with .labels }}
  labels:
    {{- toYaml . | nindent 4 }}
  {{- end }}
data:
  {{- toYaml $data | nindent 2 }}
{{- end }}

{{/* The spec of an agent's pods, with all of "medley.agentConfigMap"; .job: they are a Job's. */}}
{{- define "medley.agentPod" -}}
{{- $root := .root }}
{{- $hostNetwork := and $root.Values.hostNetwork.enabled (not .job) }}
{{- $tls := $root.Values.tls.enabled }}
{{- $configMap := include "medley.agentConfigMap" . | fromYaml }}
{{- if .job -}}
restartPolicy: OnFailure
{{ end -}}
serviceAccountName: medley
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 15
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- with .agent.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .agent.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
tolerations:
  {{- toYaml .agent.tolerations | nindent 2 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
  supplementalGroups:
    {{- toYaml .agent.supplementalGroups | nindent 4 }}
  {{- if not $hostNetwork }}
  # The ports of workers, which the network policies let through.
  sysctls:
    - {name: net.ipv4.ip_local_port_range, value: "32768 60999"}
  {{- end }}
initContainers:
  # The agent reads its name and address from a file, so they are written into one.
  - name: configuration
    {{- include "medley.image" $root | nindent 4 }}
    command:
      - /bin/sh
      - -euc
      - >-
        sed -e "s|@NODE_NAME@|$NODE_NAME|" -e "s|@POD_ADDRESS@|$POD_ADDRESS|"
        /etc/medley/agent-configuration.yaml > /run/medley/agent.yaml
    env:
      {{- if .job }}
      # The same for a pod and for the one that takes its place.
      - name: JOB_INDEX
        valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
      - {name: NODE_NAME, value: queued-$(JOB_INDEX)}
      {{- else }}
      - name: NODE_NAME
        valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
      {{- end }}
      - name: POD_ADDRESS
        valueFrom: {fieldRef: {fieldPath: status.podIP}}
    resources:
      requests: {cpu: 10m, memory: 16Mi}
      limits: {memory: 64Mi}
    securityContext:
      {{- include "medley.containerSecurity" . | nindent 6 }}
    volumeMounts:
      - {name: configuration, mountPath: /etc/medley, readOnly: true}
      - {name: run, mountPath: /run/medley}
containers:
  - name: agent
    {{- include "medley.image" $root | nindent 4 }}
    {{- if .job }}
    # An agent that is asked to stop ends with 0, and the job would count it as done and start no other: it never is.
    command:
      - /bin/sh
      - -c
      - |
        trap 'kill -TERM "$agent"' TERM
        /usr/local/bin/medley-agent --config /run/medley/agent.yaml &
        agent=$!
        wait "$agent"
        wait "$agent"
        exit 1
    {{- else }}
    command: [/usr/local/bin/medley-agent, --config, /run/medley/agent.yaml]
    {{- end }}
    env:
      # Compiled OpenCL kernels.
      - {name: XDG_CACHE_HOME, value: /var/lib/medley/cache}
      {{- with .agent.env }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- if $tls }}
      {{- include "medley.tlsVariables" (dict "prefix" "MEDLEY_AGENT" "port" 7081) | nindent 6 }}
      {{- end }}
    ports:
      - {name: grpc, containerPort: 7071}
      {{- if $tls }}
      - {name: https, containerPort: 7081}
      {{- end }}
    {{- include "medley.probes" (dict "tls" $tls "port" (ternary 7081 7071 $tls) "startSeconds" 120) | nindent 4 }}
    resources:
      {{- toYaml .agent.resources | nindent 6 }}
    securityContext:
      {{- include "medley.containerSecurity" . | nindent 6 }}
    volumeMounts:
      - {name: run, mountPath: /run/medley, readOnly: true}
      - {name: work, mountPath: /var/lib/medley}
      - {name: data, mountPath: /data}
      - {name: shared-memory, mountPath: /dev/shm}
      - {name: scratch, mountPath: /tmp}
      {{- if $tls }}
      {{- include "medley.tlsMount" . | nindent 6 }}
      {{- end }}
volumes:
  - name: configuration
    configMap: {name: {{ $configMap.metadata.name }}}
  - name: run
    emptyDir: {sizeLimit: 1Mi}
  - name: work
    emptyDir: {sizeLimit: {{ .agent.workSpace }}}
  - name: data
    persistentVolumeClaim: {claimName: {{ include "medley.claim" $root }}}
  - name: shared-memory
    emptyDir: {medium: Memory, sizeLimit: {{ .agent.sharedMemory }}}
  - name: scratch
    emptyDir: {sizeLimit: 1Gi}
  {{- if $tls }}
  {{- include "medley.tlsVolume" $root.Values.tls.agentSecret | nindent 2 }}
  {{- end }}
{{- end }}
