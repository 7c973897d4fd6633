// What the clients of all protocols have in common: the application, and the question of each
// scenario.

/**
 * The person who asks each application, and the words for each scenario: what is asked, and where
 * it continues with an answer, that answer and what is said then.
 */
const APPLICATIONS = {
  notes: {
    token: 'alice',
    text: { ask: 'Say hello' },
    call: { ask: 'Read it' },
    injected: { ask: 'Open it' },
    failedCall: { ask: 'Break it' },
    failedRun: { ask: 'Fail' },
    cited: { ask: 'Cite it' },
    stopped: { ask: 'Close it' },
    approval: { ask: 'Delete it', said: 'That is settled.' },
    question: { ask: 'Ask me', answer: 'M', said: 'You have said it.' },
    anew: true,
    clientTool: {
      ask: 'Pick one',
      tool: 'screen__pick',
      answer: 'red',
      said: 'You have picked one.',
    },
  },
  desk: {
    token: 'demo-mia',
    text: { ask: 'Hello' },
    call: { ask: 'Which products are in stock?' },
    injected: { ask: 'What is the average spend of John Smith?' },
    failedCall: { ask: 'Cancel order o-1021' },
    failedRun: { ask: 'Fail' },
    approval: { ask: 'Write to the customer of o-1021', said: 'That is settled.' },
    question: {
      ask: 'Quote the postage of the parcel',
      answer: 2500,
      said: 'The quote postage: postage cents 1049.',
    },
    clientTool: {
      ask: 'Scan the barcode of the parcel',
      tool: 'device__scanBarcode',
      answer: { barcode: '4006381333931' },
      said: 'The scan barcode is 4006381333931.',
    },
  },
};

export let url;
export let headers;
export let scenarios;

/**
 * Names the application that the clients ask from now on: `notes` of these tests, or the `desk` of
 * the demo.
 */
export function connect(address, name = 'notes') {
  url = address;
  scenarios = APPLICATIONS[name];
  headers = { authorization: `Bearer ${scenarios.token}` };
}

/**
 * Resolves once something holds; rejects with what was seen last where it does not for half a
 * minute.
 */
export async function until(holds, seen = () => undefined) {
  for (
    const end = Date.now() + 30_000;
    !holds();
    await new Promise((resolve) => setTimeout(resolve, 5))
  )
    if (Date.now() > end) throw new Error(`It did not come to this: ${JSON.stringify(seen())}`);
}

/** Asks our own routes, as the same person. */
export async function route(path, body) {
  const init =
    body === undefined
      ? { headers }
      : {
          method: 'POST',
          headers: { ...headers, 'content-type': 'application/json' },
          body: JSON.stringify(body),
        };
  const response = await fetch(url + path, init);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** Runs each scenario, and keeps what went wrong in its place. */
export async function play(plays) {
  const told = {};
  for (const [name, one] of Object.entries(plays))
    told[name] = await one().catch((error) => ({ wrong: String(error?.stack ?? error) }));
  return told;
}

/** The questions and answers that are kept of a conversation. */
export async function kept(conversationId) {
  const { entries } = await route(`/conversations/${conversationId}`);
  return entries.flatMap(({ role, text }) => (text === '' ? [] : [`${role}: ${text}`]));
}

/** What the clients say to take answers back. */
export const wordsFor = (name) => ({ ask: `Stamp for ${name}`, edited: `Stamp it for ${name}` });
