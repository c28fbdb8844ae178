package playbook

// testKinds are kinds as package step declares them, few and small.
func testKinds() []Kind {
	text, whole, ratio, yes := Type{Name: String}, Type{Name: Int}, Type{Name: Double}, Type{Name: Bool}
	one, duration := 1.0, Type{Name: Duration}
	series := Type{Name: Object, Fields: []Field{
		{Name: "labels", Type: Type{Name: Map, Elem: &text}}, {Name: "value", Type: ratio},
	}}
	return []Kind{
		{
			Name: "prometheus.query", Role: RoleCheck, Doc: "Evaluates PromQL.",
			With: []Field{
				{Name: "query", Type: Type{Name: Query}, Required: true, Doc: "PromQL."},
				{Name: "range", Type: duration},
				{Name: "step", Type: duration},
				{Name: "max_age", Type: duration, Default: "2m"},
			},
			Out: []Field{
				{Name: "status", Type: text, Enum: []string{"ok", "empty", "stale", "nan", "partial"}},
				{Name: "value", Type: ratio},
				{Name: "min", Type: ratio},
				{Name: "max", Type: ratio},
				{Name: "series", Type: Type{Name: List, Elem: &series}},
				{Name: "at", Type: Type{Name: Timestamp}},
			},
		},
		{
			Name: "http.probe", Role: RoleCheck,
			With: []Field{
				{Name: "path", Type: text, Required: true},
				{Name: "method", Type: text, Enum: []string{"GET", "HEAD"}, Default: "GET"},
				{Name: "expect_status", Type: whole, Default: 200},
				{Name: "timeout", Type: duration},
			},
			Out: []Field{{Name: "ok", Type: yes}, {Name: "status", Type: whole}, {Name: "latency_seconds", Type: ratio, Unit: "seconds"}},
		},
		{
			Name: "kube.workload", Role: RoleCheck,
			Out: []Field{
				{Name: "desired", Type: whole},
				{Name: "ready", Type: whole},
				{Name: "bad_nodes", Type: whole},
				{Name: "waiting", Type: Type{Name: List, Elem: &text}},
			},
		},
		{
			Name: "kube.changes", Role: RoleCheck,
			With: []Field{{Name: "window", Type: duration, Required: true}},
			Out:  []Field{{Name: "changed", Type: yes}, {Name: "previous", Type: whole}, {Name: "age_seconds", Type: ratio}},
		},
		{
			Name: "kube.rollout_undo", Role: RoleLever,
			With: []Field{{Name: "to_revision", Type: whole, Min: &one}},
			Out:  []Field{{Name: "revision", Type: whole}},
		},
		{
			Name: "kube.scale", Role: RoleLever, Idempotent: true,
			With: []Field{
				{Name: "replicas", Type: whole, Min: &one}, {Name: "by", Type: whole}, {Name: "max", Type: whole, Min: &one},
			},
			OneOf: [][]string{{"replicas", "by"}}, Steps: &Stepping{Param: "by", Relative: true},
		},
		{
			Name: "gitops.set_flag", Role: RoleLever, Idempotent: true, Restarts: true,
			With: []Field{{Name: "flag", Type: text}, {Name: "value", Type: text}}, Steps: &Stepping{Param: "value"},
		},
	}
}
