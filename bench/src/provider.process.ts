import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import { TOOL_NAMES, wordOf } from './task.js';

/**
 * Plays a provider, in a process of its own, so that its CPU time is not counted. It knows nothing of a run: the path tells the task, and the tool
 * results in the request tell the step. Tells its port to its parent, and ends with it.
 */
const HEAD = { id: 'chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG', object: 'chat.completion.chunk', created: 1_741_570_283, model: 'bench' };
const USAGE = { prompt_tokens: 812, completion_tokens: 61, total_tokens: 873, prompt_tokens_details: { cached_tokens: 512 } };
const answers = new Map<string, readonly string[]>();

const server = createServer((request, response) => void play(request, response));
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (typeof address === 'object' && address) process.send?.(address.port);
});
process.on('disconnect', () => process.exit());

async function play(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [, steps, chunks, pace] = (request.url ?? '').split('/');
  const step = 1 + (await textOf(request)).split('"role":"tool"').length - 1;
  const events = answer(step, Number(steps), Number(chunks));
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  if (pace === 'whole') {
    response.end(events.join(''));
    return;
  }
  for (const text of events) {
    response.write(text);
    await setImmediate();
  }
  response.end();
}

async function textOf(request: IncomingMessage): Promise<string> {
  request.setEncoding('utf8');
  let text = '';
  for await (const part of request) text += String(part);
  return text;
}

function answer(step: number, steps: number, chunks: number): readonly string[] {
  const key = `${step} ${steps} ${chunks}`;
  const known = answers.get(key) ?? (step < steps ? callAnswer(step) : textAnswer(chunks));
  answers.set(key, known);
  return known;
}

/** One call, its arguments in five pieces; different in every step, so that no limit of identical calls is reached. */
function callAnswer(step: number): readonly string[] {
  const name = TOOL_NAMES[step % TOOL_NAMES.length];
  const args = JSON.stringify({ query: 'Dublin', page: step, open: step % 2 === 0 });
  const size = Math.ceil(args.length / 5);
  const pieces = Array.from({ length: 5 }, (_, piece) => args.slice(piece * size, (piece + 1) * size));
  return [
    delta({
      role: 'assistant',
      content: null,
      tool_calls: [{ index: 0, id: `call_${step}`, type: 'function', function: { name, arguments: '' } }],
    }),
    ...pieces.map((piece) => delta({ tool_calls: [{ index: 0, function: { arguments: piece } }] })),
    ...endOf('tool_calls'),
  ];
}

function textAnswer(chunks: number): readonly string[] {
  const words = Array.from({ length: chunks }, (_, chunk) => delta({ content: wordOf(chunk) }));
  return [delta({ role: 'assistant', content: '' }), ...words, ...endOf('stop')];
}

function endOf(reason: string): readonly string[] {
  return [delta({}, reason), event({ ...HEAD, choices: [], usage: USAGE }), 'data: [DONE]\n\n'];
}

function delta(content: object, reason: string | null = null): string {
  return event({ ...HEAD, choices: [{ index: 0, delta: content, logprobs: null, finish_reason: reason }], usage: null });
}

function event(payload: object): string {
  return `data: ${JSON.stringify(payload)}\n\n`;
}
