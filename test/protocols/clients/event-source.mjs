// Our own events as SSE: the `eventsource` package, which sends headers and is otherwise what
// browsers have.
import { EventSource } from 'eventsource';
import { headers, play, route, scenarios, until, url } from './shared.mjs';

function open(address, fetching = fetch) {
  const events = [];
  const ids = [];
  const source = new EventSource(url + address, {
    fetch: (to, init) => fetching(to, { ...init, headers: { ...init.headers, ...headers } }),
  });
  source.onmessage = ({ data, lastEventId }) => {
    events.push(JSON.parse(data));
    ids.push(lastEventId);
    if (events.at(-1).type === 'run-end') source.close();
  };
  return { source, events, ids };
}

const asking = (question) => `/chat/stream?message=${encodeURIComponent(question)}`;
const hasEnded = ({ events }) => events.at(-1)?.type === 'run-end';

function told({ events }) {
  const results = events.filter(({ type }) => type === 'tool-result').map(({ record }) => record);
  const end = events.at(-1);
  return {
    text: events
      .filter(({ type }) => type === 'text-delta')
      .map(({ text }) => text)
      .join(''),
    calls: results.map(({ id, status, result, error }) => [
      id,
      status,
      result ?? error?.safeMessage,
    ]),
    injected: events
      .filter(({ type }) => type === 'tools-injected')
      .flatMap(({ tools }) => tools.map((tool) => tool.id ?? tool)),
    end: end?.error ? `${end.finishReason}: ${end.error.message}` : end?.finishReason,
  };
}

/**
 * An EventSource cannot post: the answer goes to the routes of runs, and the run is read on by the
 * one that resumes it.
 */
async function ask(question, answerTo) {
  const stream = open(asking(question));
  await until(
    () => hasEnded(stream),
    () => stream.events.at(-1),
  );
  if (!answerTo) return told(stream);
  const [{ runId }] = stream.events;
  const request = stream.events.find(
    ({ type }) => type === 'approval-request' || type === 'pending-request',
  );
  await route(`/runs/${runId}/answer`, answerTo(request.approval ?? request.request));
  const response = await fetch(`${url}/runs/${runId}/resume`, { method: 'POST', headers });
  const data = (await response.text()).split('\n').filter((line) => line.startsWith('data: '));
  const { finishReason: asked } = stream.events.at(-1);
  return {
    asked,
    done: told({ events: data.map((line) => JSON.parse(line.slice('data: '.length))) }),
  };
}

async function abort() {
  const stream = open(asking('Count for event-source'));
  await until(
    () => told(stream).text.includes('3 '),
    () => told(stream),
  );
  stream.source.close();
  const [{ runId }] = stream.events;
  const { status: before } = await route(`/runs/${runId}`);
  await route(`/runs/${runId}/cancel`, {});
  return { before };
}

/**
 * Breaks the first connection in the middle: the package connects again by itself, behind the last
 * event that it saw.
 */
async function reconnect() {
  const cuts = [];
  const stream = open(asking('Count once'), (to, init) => {
    const cut = new AbortController();
    cuts.push(cut);
    return fetch(to, { ...init, signal: cut.signal });
  });
  await until(
    () => told(stream).text.includes('3 '),
    () => told(stream),
  );
  cuts[0].abort(new TypeError('The connection was cut.'));
  await until(
    () => hasEnded(stream),
    () => stream.events.at(-1),
  );
  const sequences = stream.events.map(({ sequence }) => sequence);
  return {
    text: told(stream).text,
    connections: cuts.length,
    isEachOnce: sequences.every((sequence, index) => sequence === index + 1),
  };
}

export const eventSourcePlays = () =>
  play({
    text: () => ask(scenarios.text.ask),
    call: () => ask(scenarios.call.ask),
    injected: () => ask(scenarios.injected.ask),
    failedCall: () => ask(scenarios.failedCall.ask),
    failedRun: () => ask(scenarios.failedRun.ask),
    approved: () =>
      ask(scenarios.approval.ask, ({ approvalId }) => ({ approvalId, decision: 'approve' })),
    denied: () =>
      ask(scenarios.approval.ask, ({ approvalId }) => ({
        approvalId,
        decision: 'deny',
        reason: 'Keep it.',
      })),
    question: () =>
      ask(scenarios.question.ask, ({ questionId }) => ({
        questionId,
        answer: scenarios.question.answer,
      })),
    clientTool: () =>
      ask(scenarios.clientTool.ask, ({ toolCallId, pendingId }) => ({
        toolCallId,
        pendingId,
        result: scenarios.clientTool.answer,
      })),
    abort,
    reconnect,
  });
