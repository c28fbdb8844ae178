package audit

func crashChild() {}
func holdChild()  {}
