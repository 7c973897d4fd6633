// A process of its own that reads the events of runs: `node readers.process.mjs <url> <token>
// <readers of each run> <connecting at once>`, and the ids of the runs as a message. It tells its
// parent when all are connected, and what each message asks for: how many events came, and how many
// streams have ended.
import { Agent, request } from 'node:http';

const [url, token, readersOfEach, atOnce] = process.argv.slice(2);
const agent = new Agent({ keepAlive: false, maxSockets: Infinity });
let [events, ended, refused] = [0, 0, 0];

process.on('message', async (message) => {
  if (!Array.isArray(message)) return process.send({ events, ended, refused });
  const ids = Array.from(
    { length: message.length * Number(readersOfEach) },
    (_, index) => message[index % message.length],
  );
  await Promise.all(
    Array.from({ length: Number(atOnce) }, async () => {
      for (let runId = ids.pop(); runId !== undefined; runId = ids.pop()) await connect(runId);
    }),
  );
  process.send('connected');
});

/** Resolves when the answer begins. */
function connect(runId) {
  return new Promise((resolve) => {
    const asking = request(
      `${url}/runs/${runId}/events`,
      { agent, headers: { authorization: `Bearer ${token}` } },
      (response) => {
        if (response.statusCode !== 200) refused += 1;
        response.on('data', (chunk) => {
          for (let at = chunk.indexOf('data: '); at !== -1; at = chunk.indexOf('data: ', at + 6))
            events += 1;
        });
        response.on('error', () => undefined);
        response.on('close', () => (ended += 1));
        resolve();
      },
    );
    asking.on('error', () => {
      refused += 1;
      resolve();
    });
    asking.end();
  });
}
