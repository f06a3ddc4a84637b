// Package gatewaytest runs the gateway as its users do: the built program, as a process of its own, over HTTP.
//
// Tests that kill it, restart it, run two of it, or hold it against other people's libraries use it. It refuses to
// reach into the process: what it knows comes from the command line and the API.
//
// A run that is to be counted keeps three journals: a Producer's of what was posted, a Receiver's of what arrived, and
// what the API says in the end (Export). The package checker holds them against each other:
//
//	in := gatewaytest.Install(t)
//	g := in.Start()
//	now := func() []*gatewaytest.Gateway { return []*gatewaytest.Gateway{g} }
//	tenant, token := in.Tenant("acme")
//	receiver := gatewaytest.NewReceiver(t)
//	everything := receiver.Endpoint(t, g, tenant, token, "**", func(string) bool { return true })
//	producer := gatewaytest.NewProducer(now, tenant, token, 16)
//	producer.Run(ctx, 1000)
//	gatewaytest.Settled(ctx, t, now, token)
//	run := checker.Run{Posts: producer.Posts(), Endpoints: []checker.Endpoint{everything}, Requests: receiver.Requests()}
//	if err := gatewaytest.Export(ctx, g, tenant, token, &run); err != nil {
//		t.Fatal(err)
//	}
//	checker.Check(run).Hold(t, checker.Bounds{})
package gatewaytest
