import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { setImmediate } from 'node:timers/promises';
import { sharedClock, TOOL_NAMES, wordOf } from './task.js';

/**
 * Plays a provider, in a process of its own, so that its CPU time is not counted. It knows nothing
 * of a run: the path tells the task, the prompt its number, and the tool results in the request
 * tell the step. Tells its port to its parent, and ends with it; a message from the parent is
 * answered with the times of the requests since the last one. With a certificate's file as its
 * argument (key and certificate in PEM) it speaks TLS.
 */
const USAGE = {
  prompt_tokens: 812,
  completion_tokens: 61,
  total_tokens: 873,
  prompt_tokens_details: { cached_tokens: 512 },
};

/**
 * When a request arrived and when the last byte of its answer was given to the socket: milliseconds
 * on the clock that all processes share.
 */
const times: (readonly [arrived: number, answered: number])[] = [];

const [certificate] = process.argv.slice(2);
const pem = certificate === undefined ? undefined : readFileSync(certificate);
const handler = (request: IncomingMessage, response: ServerResponse): void =>
  void play(request, response);
const server = pem ? createSecureServer({ key: pem, cert: pem }, handler) : createServer(handler);
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (typeof address === 'object' && address) process.send?.(address.port);
});
process.on('message', () => process.send?.(times.splice(0)));
process.on('disconnect', () => process.exit());

async function play(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const arrived = sharedClock();
  const [, steps, chunks, pace] = (request.url ?? '').split('/');
  const body = await textOf(request);
  const step = body.split('"role":"tool"').length;
  const number = Number(/case #(\d+)/.exec(body)?.[1]);
  const place = { step, number };
  const events = step < Number(steps) ? callAnswer(place) : textAnswer(Number(chunks), place);
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  if (pace !== 'whole') {
    for (const text of events.splice(0)) {
      response.write(text);
      await setImmediate();
    }
  }
  response.end(events.join(''));
  times.push([arrived, sharedClock()]);
  if (times.length > 10_000) times.shift();
}

async function textOf(request: IncomingMessage): Promise<string> {
  request.setEncoding('utf8');
  let text = '';
  for await (const part of request) text += String(part);
  return text;
}

/** The answer's place: which one of a run, and the number of its task. */
interface Place {
  readonly step: number;
  readonly number: number;
}

/**
 * One call, its arguments in five pieces; different in every step, so that no limit of identical
 * calls is reached.
 */
function callAnswer(place: Place): string[] {
  const { step, number } = place;
  const name = TOOL_NAMES[step % TOOL_NAMES.length];
  const args = JSON.stringify({
    query: `Dublin ${number % 97}`,
    page: step,
    open: (step + number) % 2 === 0,
  });
  const size = Math.ceil(args.length / 5);
  const pieces = Array.from({ length: 5 }, (_, piece) =>
    args.slice(piece * size, (piece + 1) * size),
  );
  const call = {
    index: 0,
    id: `call_${number}_${step}`,
    type: 'function',
    function: { name, arguments: '' },
  };
  return [
    delta(place, { role: 'assistant', content: null, tool_calls: [call] }),
    ...pieces.map((piece) =>
      delta(place, { tool_calls: [{ index: 0, function: { arguments: piece } }] }),
    ),
    ...endOf(place, 'tool_calls'),
  ];
}

function textAnswer(chunks: number, place: Place): string[] {
  const words = Array.from({ length: chunks }, (_, chunk) =>
    delta(place, { content: wordOf(chunk, place.number) }),
  );
  return [delta(place, { role: 'assistant', content: '' }), ...words, ...endOf(place, 'stop')];
}

function endOf(place: Place, reason: string): readonly string[] {
  return [
    delta(place, {}, reason),
    event({ ...headOf(place), choices: [], usage: USAGE }),
    'data: [DONE]\n\n',
  ];
}

function delta(place: Place, content: object, reason: string | null = null): string {
  return event({
    ...headOf(place),
    choices: [{ index: 0, delta: content, logprobs: null, finish_reason: reason }],
    usage: null,
  });
}

/**
 * Each answer has an id of its own: some frameworks take a message with a known id for the same
 * one.
 */
function headOf({ step, number }: Place): object {
  return {
    id: `chatcmpl-B9MHDbslfkBeAs8l${number}s${step}`,
    object: 'chat.completion.chunk',
    created: 1_741_570_283 + number,
    model: 'bench',
  };
}

function event(payload: object): string {
  return `data: ${JSON.stringify(payload)}\n\n`;
}
