// AG-UI 1.0: HttpAgent of @ag-ui/client.
import { HttpAgent } from '@ag-ui/client';
import { headers, kept, play, scenarios, until, url, wordsFor } from './shared.mjs';

let threads = 0;

/** An agent of a new thread, or of one that there is, with what it was told. */
function open({ path = '/ai/agui', threadId = `ag-ui-${(threads += 1)}` } = {}) {
  const agent = new HttpAgent({ url: url + path, headers, threadId });
  const heard = { ends: [], injected: [], errors: [] };
  const watch = {
    onEvent: ({ event }) => {
      if (event.type === 'RUN_FINISHED') heard.ends.push(event.outcome);
      if (event.type === 'RUN_ERROR') heard.errors.push(event.message);
      if (event.type === 'CUSTOM' && event.name === 'toolloop.tools-injected')
        heard.injected.push(...event.value.tools.map((tool) => tool.id ?? tool));
    },
  };
  let runs = 0;
  const run = (more = {}) =>
    agent
      .runAgent({ runId: `${agent.threadId}-${(runs += 1)}`, ...more }, watch)
      .catch((error) => heard.errors.push(`thrown: ${error.message}`));
  return { agent, heard, run };
}

function told({ agent: { messages }, heard: { ends, injected, errors } }) {
  const calls = messages.flatMap(({ toolCalls = [] }) => toolCalls);
  return {
    text: messages
      .filter(({ role, content }) => role === 'assistant' && content)
      .map(({ content }) => content)
      .join(''),
    calls: calls.map(({ id, function: { name } }) => [
      name,
      ...messages.filter(({ toolCallId }) => toolCallId === id).map(({ content }) => content),
    ]),
    injected,
    ends: ends.map(({ type }) => type),
    errors,
  };
}

async function ask(question, answer = async () => undefined) {
  const page = open();
  page.agent.messages = [{ id: 'u1', role: 'user', content: question }];
  await page.run();
  await answer(page);
  return told(page);
}

/** Answers the interrupts of the run before, in the next one. */
function resolve(page, payload) {
  const { interrupts } = page.heard.ends.at(-1);
  return page.run({
    resume: interrupts.map(({ id: interruptId }) => ({ interruptId, status: 'resolved', payload })),
  });
}

function clientTool() {
  return ask(scenarios.clientTool.ask, async (page) => {
    const [toolCallId] = page.heard.ends.at(-1).pendingToolCallIds;
    page.agent.messages.push({
      id: 't1',
      role: 'tool',
      toolCallId,
      content: contentOf(scenarios.clientTool.answer),
    });
    await page.run();
  });
}

const contentOf = (result) => (typeof result === 'string' ? result : JSON.stringify(result));

/** A run ends with its reader, where the client has not said that it would read on. */
async function abort() {
  const page = open();
  page.agent.messages = [{ id: 'u1', role: 'user', content: 'Count for ag-ui' }];
  const running = page.run();
  await until(
    () => told(page).text.includes('3 '),
    () => told(page),
  );
  page.agent.abortRun();
  await running;
  return { hasAll: told(page).text.includes('39') };
}

/**
 * An agent whose stream breaks in the middle; another one of the same thread, with what the first
 * one has, has all of the answer, each message once.
 */
async function reconnect() {
  const lost = open();
  lost.agent.messages = [{ id: 'u1', role: 'user', content: 'Count for another agent' }];
  const running = lost.run({ forwardedProps: { resumable: true } });
  await until(
    () => told(lost).text.includes('3 '),
    () => told(lost),
  );
  lost.agent.abortRun();
  await running;
  const page = open({ path: '/ai/agui/connect', threadId: lost.agent.threadId });
  page.agent.messages = lost.agent.messages;
  await page.run();
  const { text, ends } = told(page);
  await page.run(); // there is no more
  return { text, ends, isSame: told(page).text === text };
}

/**
 * An answer with a write is given anew, by the same message once more; then its question is
 * changed, which has another id.
 */
async function anew() {
  const { ask: asked, edited } = wordsFor('ag-ui');
  const page = open();
  const { threadId } = page.agent;
  page.agent.messages = [{ id: 'u1', role: 'user', content: asked }];
  await page.run();
  page.agent.messages = page.agent.messages.slice(0, 1);
  await page.run();
  const regenerated = { calls: told(page).calls, kept: await kept(threadId) };
  page.agent.messages = [{ id: 'u2', role: 'user', content: edited }];
  await page.run({ forwardedProps: { cut: { at: ['u1'] } } });
  return { regenerated, changed: { calls: told(page).calls, kept: await kept(threadId) } };
}

export const agUiPlays = () =>
  play({
    text: () => ask(scenarios.text.ask),
    call: () => ask(scenarios.call.ask),
    injected: () => ask(scenarios.injected.ask),
    failedCall: () => ask(scenarios.failedCall.ask),
    failedRun: () => ask(scenarios.failedRun.ask),
    approved: () => ask(scenarios.approval.ask, (page) => resolve(page, { approved: true })),
    denied: () =>
      ask(scenarios.approval.ask, (page) => resolve(page, { approved: false, reason: 'Keep it.' })),
    question: () =>
      ask(scenarios.question.ask, (page) => resolve(page, { answer: scenarios.question.answer })),
    ...(scenarios.anew && { anew }),
    clientTool,
    abort,
    reconnect,
  });
