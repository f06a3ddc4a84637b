// A receiver in Node that verifies with the npm library of Standard Webhooks. It prints where it listens, reads its
// endpoint's secret from standard input, and then prints a line for each request.
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { Webhook } from "standardwebhooks";

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
let webhook;

const server = createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    const body = Buffer.concat(chunks);
    const id = request.headers["webhook-id"];
    try {
      const event = webhook.verify(body.toString("utf8"), request.headers);
      if (event.id !== id) throw new Error(`the body is of event ${event.id}`);
      // data is the last member: what stands between its name and the closing brace are its bytes.
      const start = body.indexOf(',"data":') + ',"data":'.length;
      const data = body.subarray(start, body.length - 1);
      say({ id, sha256: createHash("sha256").update(data).digest("hex") });
      response.writeHead(204).end();
    } catch (error) {
      say({ id, error: String(error) });
      response.writeHead(400).end();
    }
  });
});

createInterface({ input: process.stdin })
  .on("line", (secret) => {
    webhook = new Webhook(secret);
    say({ ready: true });
  })
  .on("close", () => process.exit(0)); // its parent has gone
server.listen(0, "127.0.0.1", () => say({ port: server.address().port }));
