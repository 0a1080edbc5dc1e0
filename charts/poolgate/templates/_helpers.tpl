{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* image: {repository, tag}; root. */}}
{{- define "poolgate.image" -}}
{{ printf "%s:%s" .image.repository (.image.tag | default .root.Chart.AppVersion) }}
{{- end }}

{{/* Which files below manifests/ are installed, as JSON. */}}
{{- define "poolgate.files" -}}
{{- $files := list "base/rbac.yaml" "base/plan-keys.yaml" "base/flowcontrol.yaml" "base/service.yaml" "base/deployment.yaml" "base/pdb.yaml" "base/networkpolicy.yaml" "base/webhooks.yaml" }}
{{- if .Values.certManager.enabled }}{{ $files = append $files "components/cert-manager/certificates.yaml" }}{{ end }}
{{- if .Values.secrets.enabled }}{{ $files = concat $files (list "components/secrets/rbac.yaml" "components/secrets/policy.yaml" "components/secrets/record.yaml") }}{{ end }}
{{- if .Values.secrets.allNamespaces }}
{{- if not .Values.secrets.enabled }}{{ fail "secrets.allNamespaces needs secrets.enabled" }}{{ end }}
{{- $files = append $files "overlays/all-namespaces-secrets/clusterrolebinding.yaml" }}
{{- end }}
{{- if .Values.monitoring.enabled }}{{ $files = concat $files (list "components/monitoring/podmonitor.yaml" "components/monitoring/rules.yaml") }}{{ end }}
{{- if .Values.gpupool.enabled }}{{ $files = concat $files (list "components/gpupool/crd.yaml" "components/gpupool/rbac.yaml") }}{{ end }}
{{- if .Values.quotas.enabled }}{{ $files = concat $files (list "components/quotas/rbac.yaml") }}{{ end }}
{{- if .Values.registry.enabled }}{{ $files = append $files "components/registry/rbac.yaml" }}{{ end }}
{{- if .Values.waiting.enabled }}{{ $files = concat $files (list "components/waiting/rbac.yaml" "components/waiting/policy.yaml") }}{{ end }}
{{- if .Values.eviction.enabled }}{{ $files = append $files "components/eviction/rbac.yaml" }}{{ end }}
{{- if .Values.policies.enabled }}{{ $files = concat $files (list "components/policies/crd.yaml" "components/policies/rbac.yaml" "components/policies/grant.yaml") }}{{ end }}
{{- if .Values.usage.enabled }}{{ $files = concat $files (list "components/usage/crd.yaml" "components/usage/rbac.yaml") }}{{ end }}
{{- if .Values.usage.metrics }}
{{- if not .Values.usage.enabled }}{{ fail "usage.metrics needs usage.enabled" }}{{ end }}
{{- $files = concat $files (list "components/usage-metrics/rbac.yaml" "components/usage-metrics/networkpolicy.yaml") }}
{{- end }}
{{- if .Values.devicePlugin.enabled }}{{ $files = concat $files (list "components/device-plugin/namespace.yaml" "components/device-plugin/rbac.yaml" "components/device-plugin/daemonset.yaml") }}{{ end }}
{{- if .Values.gpuprobe.enabled }}{{ $files = concat $files (list "components/gpuprobe/namespace.yaml" "components/gpuprobe/daemonset.yaml") }}{{ end }}
{{- if .Values.gpugate.enabled }}{{ $files = concat $files (list "components/gpugate/namespace.yaml" "components/gpugate/rbac.yaml" "components/gpugate/daemonset.yaml") }}{{ end }}
{{- toJson $files }}
{{- end }}

{{/* What poolgate reads: {poolgate-config: {file: text}, poolgate-client: …, poolgate-launchers: …} as JSON. */}}
{{- define "poolgate.configured" -}}
{{- $config := mergeOverwrite (fromYaml (.Files.Get "files/base/config/poolgate.yaml")) (deepCopy .Values.settings) }}
{{- if .Values.certManager.enabled }}{{ $_ := set $config.cluster.tls "manage" false }}{{ end }}
{{- if .Values.secrets.enabled }}{{ $_ := set $config.cluster.secrets "sync" true }}{{ end }}
{{- if .Values.waiting.enabled }}{{ $_ := set $config.cluster.waiting "enabled" true }}{{ end }}
{{- if .Values.eviction.enabled }}{{ $_ := set $config.cluster.eviction "enabled" true }}{{ end }}
{{- if .Values.policies.enabled }}{{ $_ := set $config.cluster.policies "enabled" true }}{{ end }}
{{- if .Values.usage.enabled }}{{ $_ := set $config.cluster.usage "enabled" true }}{{ end }}
{{- if .Values.usage.metrics }}{{ $_ := set $config.cluster.usage "listen" ":8444" }}{{ end }}
{{- $client := dict }}
{{- range $name := list "catalogue" "sidecar" }}
{{- $own := index $.Values.client $name }}
{{- $_ := set $client (printf "%s.yaml" $name) (ternary (toYaml $own) ($.Files.Get (printf "files/examples/%s.yaml" $name)) (not (empty $own))) }}
{{- end }}
{{- $launchers := dict }}
{{- range $path, $_ := .Files.Glob "files/examples/launchers/*.yaml" }}{{ $_ := set $launchers (base $path) ($.Files.Get $path) }}{{ end }}
{{- if .Values.uidRanges.enabled }}{{ $_ := set $launchers "lupine.yaml" (.Files.Get "files/components/uid-ranges/lupine.yaml") }}{{ end }}
{{- range $name, $own := .Values.launchers }}
{{- if $own }}{{ $_ := set $launchers $name (toYaml $own) }}{{ else }}{{ $_ := unset $launchers $name }}{{ end }}
{{- end }}
{{- dict "poolgate-config" (merge (dict "poolgate.yaml" (toYaml $config)) (.Values.registry.certificates | default dict)) "poolgate-client" $client "poolgate-launchers" $launchers | toJson }}
{{- end }}

{{/* The values, put into the Deployment. {object, root} */}}
{{- define "poolgate.deployment" -}}
{{- $spec := .object.spec.template.spec }}
{{- $container := index $spec.containers 0 }}
{{- $values := .root.Values }}
{{- $_ := set .object.spec "replicas" $values.replicas }}
{{- $_ := set $container "image" (include "poolgate.image" (dict "image" $values.image "root" .root)) }}
{{- $_ := set $container "imagePullPolicy" $values.image.pullPolicy }}
{{- with $values.resources }}{{ $_ := set $container "resources" . }}{{ end }}
{{- range $key := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" }}
{{- with index $values $key }}{{ $_ := set $spec $key . }}{{ end }}
{{- end }}
{{- /* changed settings roll the replicas: wrong ones never become ready, and the old ones stay */}}
{{- $_ := set .object.spec.template.metadata.annotations "poolgate.io/settings" (include "poolgate.configured" .root | sha256sum) }}
{{- end }}

{{/* Labels, images and values, put into an object that was read. {object, file, root} */}}
{{- define "poolgate.adapt" -}}
{{- $labels := dict "app.kubernetes.io/part-of" "poolgate" }}
{{- $ours := not (regexMatch "^components/(device-plugin|gpuprobe|gpugate)/" .file) }}
{{- if $ours }}{{ $_ := set $labels "app.kubernetes.io/name" "poolgate" }}{{ end }}
{{- $_ := set .object.metadata "labels" (merge $labels (.object.metadata.labels | default dict)) }}
{{- if eq .object.kind "Deployment" }}
{{- $_ := set .object.spec.template.metadata "labels" (merge $labels .object.spec.template.metadata.labels) }}
{{- include "poolgate.deployment" . }}
{{- end }}
{{- if eq .object.kind "DaemonSet" }}
{{- $of := dict "device-plugin" "devicePlugin" "gpuprobe" "gpuprobe" "gpugate" "gpugate" }}
{{- $image := (index .root.Values (get $of (base (dir .file)))).image }}
{{- $_ := set (index .object.spec.template.spec.containers 0) "image" (include "poolgate.image" (dict "image" $image "root" .root)) }}
{{- end }}
{{- if and .root.Values.policies.enabled (hasSuffix "WebhookConfiguration" .object.kind) }}
{{- $more := .root.Files.Get (printf "files/components/policies/%s.yaml" (ternary "mutating" "validating" (hasPrefix "Mutating" .object.kind))) | fromYaml }}
{{- $there := dict }}{{ range .object.webhooks }}{{ $_ := set $there .name . }}{{ end }}
{{- range $hook := $more.webhooks }}
{{- if not (hasKey $there $hook.name) }}{{ $_ := set $.object "webhooks" (append $.object.webhooks $hook) }}
{{- else if not $hook.clientConfig }}{{ $_ := set (get $there $hook.name) "namespaceSelector" $hook.namespaceSelector }}{{ end }}
{{- end }}
{{- end }}
{{- if and .root.Values.certManager.enabled (hasSuffix "WebhookConfiguration" .object.kind) }}
{{- $_ := set .object.metadata "annotations" (dict "cert-manager.io/inject-ca-from" "poolgate-system/poolgate") }}
{{- end }}
{{- end }}
