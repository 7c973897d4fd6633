// What the clients of all protocols have in common: the application, and the question of each scenario.
export let [url] = process.argv.slice(2);

/** Names the application, where the clients are no program of their own. */
export function connect(address) {
  url = address;
}

export const headers = { authorization: 'Bearer alice' };

/** The scenarios by the words that their model knows. */
export const SCENARIOS = {
  text: 'Say hello',
  call: 'Read it',
  injected: 'Open it',
  failedCall: 'Break it',
  failedRun: 'Fail',
  approved: 'Delete it',
  denied: 'Delete it',
  question: 'Ask me',
  clientTool: 'Pick one',
};

/** Resolves once something holds; rejects with what was seen last where it does not for half a minute. */
export async function until(holds, seen = () => undefined) {
  for (const end = Date.now() + 30_000; !holds(); await new Promise((resolve) => setTimeout(resolve, 5)))
    if (Date.now() > end) throw new Error(`It did not come to this: ${JSON.stringify(seen())}`);
}

/** Asks our own routes, as the same person. */
export async function route(path, body) {
  const init =
    body === undefined
      ? { headers }
      : { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const response = await fetch(url + path, init);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** Runs each scenario, and keeps what went wrong in its place. */
export async function play(plays) {
  const told = {};
  for (const [name, one] of Object.entries(plays)) told[name] = await one().catch((error) => ({ wrong: String(error?.stack ?? error) }));
  return told;
}
