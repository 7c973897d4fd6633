// A process of its own that holds open consoles, as far as the server sees them: `node
// consoles.process.mjs <url> <name> <password> <consoles>`. Each has the feed, and asks for what
// waits when the feed says that it has changed, as the page does for the count beside its inbox. It
// tells its parent when all are connected, and what each message asks for.
import { Agent, request } from 'node:http';

const [url, name, password, consoles] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
let [notices, asked, refused] = [0, 0, 0];

const own = { 'x-toolloop-console': '1', 'content-type': 'application/json' };
const entered = await fetch(`${url}/console/session`, {
  method: 'POST',
  headers: own,
  body: JSON.stringify({ name, password }),
});
const cookie = entered.headers.getSetCookie()[0]?.split(';')[0] ?? '';
const { csrf } = await (await fetch(`${url}/console/session`, { headers: { cookie } })).json();

process.on('message', () => process.send({ notices, asked, refused }));
await Promise.all(Array.from({ length: Number(consoles) }, open));
process.send('connected');

function open() {
  return new Promise((resolve) => {
    get('/console/feed', { cookie, accept: 'text/event-stream' }, (response) => {
      if (response.statusCode !== 200) refused += 1;
      response.on('data', (chunk) => {
        const told = chunk.toString().match(/^data: \w+/gm) ?? [];
        notices += told.length;
        if (told.includes('data: inbox')) refresh();
      });
      resolve();
    });
  });
}

function refresh() {
  asked += 1;
  get('/pending', { cookie, 'x-toolloop-console': csrf }, (response) => {
    if (response.statusCode !== 200) refused += 1;
    response.resume();
  });
}

function get(path, headers, answered) {
  const asking = request(url + path, { agent, headers }, answered);
  asking.on('error', () => (refused += 1));
  asking.end();
}
