{{- define "muster.name" -}}
{{- if contains "muster" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-muster{{ end }}
{{- end }}

{{- /* Which scheduler names this release serves, and by which Lease: a release that comes later does not. */}}
{{- define "muster.schedules" -}}
muster.dev/lease: {{ .Release.Namespace }}/{{ include "muster.name" . }}-scheduler
muster.dev/schedules: {{ .Values.scheduler.config.schedulerNames | default (list "muster") | join "," | quote }}
{{- end }}

{{- define "muster.labels" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* Whether the controllers convert LatticeJobs. */}}
{{- define "muster.latticeJobs" -}}
{{- $config := .Values.controllers.config }}
{{- and (has "batchjob" $config.only) (default false (default dict $config.batchJobs).latticeJobs) }}
{{- end }}

{{- /* By digest if there is one: a tag can be moved. */}}
{{- define "muster.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}

{{- define "muster.selector" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
