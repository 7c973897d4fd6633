// AI SDK 7: `useChat` of @ai-sdk/react in a page, with the transport that it has by default.
import { useChat } from '@ai-sdk/react';
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from 'ai';
import { JSDOM } from 'jsdom';
import { headers, kept, play, route, scenarios, until, url, wordsFor } from './shared.mjs';

const { window } = new JSDOM('<!doctype html><div id="page"></div>');
Object.assign(globalThis, { window, document: window.document });
const { createElement } = await import('react');
const { createRoot } = await import('react-dom/client');

let chats = 0;

/** A page with a chat; `chat()` is what the hook returned last. */
async function open({ as = headers, ...options } = {}, fetching = fetch) {
  const id = options.id ?? `use-chat-${(chats += 1)}`;
  const transport = new DefaultChatTransport({
    api: `${url}/ai/chat`,
    headers: as,
    fetch: fetching,
  });
  let shown;
  const Page = () => {
    shown = useChat({ ...options, id, transport });
    return null;
  };
  const root = createRoot(window.document.createElement('div'));
  root.render(createElement(Page));
  await until(() => shown !== undefined);
  return { chat: () => shown, id, close: () => root.unmount() };
}

function told({ messages, status, error }) {
  const parts = messages
    .filter(({ role }) => role === 'assistant')
    .flatMap((message) => message.parts);
  const calls = parts.filter(({ type }) => type.startsWith('tool-') || type === 'dynamic-tool');
  return {
    text: parts
      .filter(({ type }) => type === 'text')
      .map(({ text }) => text)
      .join(''),
    calls: calls.map((part) => [
      part.type.replace(/^tool-/, ''),
      part.state,
      ...(part.output === undefined ? [] : [part.output]),
      ...(part.errorText ? [part.errorText] : []),
    ]),
    injected: parts
      .filter(({ type }) => type === 'data-tools-injected')
      .flatMap(({ data }) => data.tools.map((tool) => tool.id ?? tool)),
    status: error ? `${status}: ${error.message}` : status,
  };
}

/** A page shows what has come a little later. */
const isAnswered = ({ messages, error }) =>
  error !== undefined || messages.at(-1)?.role === 'assistant';

const IDLE = ['ready', 'error'];

async function ask(question, options, answer = async () => undefined) {
  const page = await open(options);
  await page.chat().sendMessage({ text: question });
  await until(
    () => IDLE.includes(page.chat().status) && isAnswered(page.chat()),
    () => told(page.chat()),
  );
  await answer(page);
  const shown = told(page.chat());
  page.close();
  return shown;
}

const partOf = ({ chat }, wanted) =>
  chat()
    .messages.flatMap(({ parts }) => parts)
    .find(wanted);
const settled = ({ chat }, text) =>
  until(
    () => chat().status === 'ready' && told(chat()).text === text,
    () => told(chat()),
  );

/** The sources stand beside the text. */
async function cited() {
  let sources;
  const { text } = await ask(scenarios.cited.ask, {}, async ({ chat }) => {
    const parts = chat().messages.flatMap((message) => message.parts);
    sources = parts
      .filter(({ type }) => type === 'source-url')
      .map(({ url, title }) => [url, title]);
  });
  return { text, sources };
}

/**
 * A run that ends with a call which the server has made: a client that sends its messages once all
 * calls are made has none to send.
 */
async function stopped() {
  const sent = [];
  const counting = (address, init) => {
    sent.push(address);
    return fetch(address, init);
  };
  const page = await open(
    { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls },
    counting,
  );
  await page.chat().sendMessage({ text: scenarios.stopped.ask });
  await until(
    () => IDLE.includes(page.chat().status) && isAnswered(page.chat()),
    () => told(page.chat()),
  );
  const { calls, status } = told(page.chat());
  page.close();
  return { calls, status, requests: sent.length };
}

function decide(approved) {
  const options = { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses };
  return ask(scenarios.approval.ask, options, async (page) => {
    const { approval } = partOf(page, (part) => part.state === 'approval-requested');
    await page.chat().addToolApprovalResponse({ id: approval.id, approved, reason: 'So be it.' });
    await settled(page, scenarios.approval.said);
  });
}

/**
 * The question is data of ours; it is answered over the routes of runs, and the chat is sent on
 * without a message.
 */
function question() {
  return ask(scenarios.question.ask, {}, async (page) => {
    const { data } = partOf(page, ({ type }) => type === 'data-question');
    await route(`/runs/${data.runId}/answer`, {
      questionId: data.questionId,
      answer: scenarios.question.answer,
    });
    await page.chat().sendMessage();
    await settled(page, scenarios.question.said);
  });
}

function clientTool() {
  return ask(
    scenarios.clientTool.ask,
    { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls },
    async (page) => {
      const { tool, answer: output, said } = scenarios.clientTool;
      const { toolCallId } = partOf(page, ({ type }) => type === `tool-${tool}`);
      await page.chat().addToolOutput({ tool, toolCallId, output });
      await settled(page, said);
    },
  );
}

/**
 * The client stops reading at once; the run is stopped by a request of its own, for which the
 * message has its id.
 */
async function abort() {
  const page = await open();
  void page.chat().sendMessage({ text: 'Count for use-chat' });
  await until(
    () => told(page.chat()).text.includes('3 '),
    () => told(page.chat()),
  );
  await page.chat().stop();
  const { id } = page.chat().messages.at(-1);
  const before = await route(`/runs/${id}`);
  await route(`/runs/${id}/cancel`, {});
  const { status } = told(page.chat());
  page.close();
  return { before: before.status, status };
}

/**
 * A page that is loaded again in the middle of an answer: the connection of the first one breaks,
 * and the second one has all of it, each piece once.
 */
async function reconnect() {
  let cut;
  const breaking = (address, init) => {
    cut = new AbortController();
    return fetch(address, { ...init, signal: cut.signal });
  };
  const first = await open({}, breaking);
  first
    .chat()
    .sendMessage({ text: 'Count again' })
    .catch(() => undefined);
  await until(
    () => told(first.chat()).text.includes('3 '),
    () => told(first.chat()),
  );
  cut.abort();
  const messages = first.chat().messages.filter(({ role }) => role === 'user');
  const second = await open({ id: first.id, messages });
  await second.chat().resumeStream();
  await until(() => second.chat().status === 'ready');
  const shown = told(second.chat());
  await second.chat().resumeStream(); // there is no more
  const after = told(second.chat());
  first.close();
  second.close();
  return { text: shown.text, isSame: JSON.stringify(after) === JSON.stringify(shown) };
}

const shownIn = ({ chat, id }) =>
  kept(id).then((entries) => ({
    calls: told(chat()).calls,
    kept: entries,
    status: told(chat()).status,
  }));

/** Resolves once something was asked and answered. */
async function answered(page, asking) {
  await asking;
  await until(
    () => IDLE.includes(page.chat().status) && isAnswered(page.chat()),
    () => told(page.chat()),
  );
}

/** An answer with a write is given anew, then its question changed, then a question behind it. */
async function anew() {
  const { ask: asked, edited } = wordsFor('use-chat');
  const page = await open();
  await answered(page, page.chat().sendMessage({ text: asked }));
  await answered(page, page.chat().regenerate());
  const regenerated = await shownIn(page);
  await answered(page, page.chat().sendMessage({ text: scenarios.text.ask }));
  const { id: messageId } = page.chat().messages[0];
  await answered(page, page.chat().sendMessage({ text: edited, messageId }));
  const changed = await shownIn(page);
  page.close();
  return { regenerated, changed };
}

/** An answer is given anew while it is under way. */
async function anewUnderWay() {
  const page = await open();
  page
    .chat()
    .sendMessage({ text: 'Count anew' })
    .catch(() => undefined);
  await until(
    () => told(page.chat()).text.includes('3 '),
    () => told(page.chat()),
  );
  const { id: first } = page.chat().messages.at(-1);
  await page.chat().stop();
  const before = await route(`/runs/${first}`);
  await answered(page, page.chat().regenerate());
  const after = await route(`/runs/${first}`);
  const shown = {
    text: told(page.chat()).text,
    kept: await kept(page.id),
    first: [before.status, after.status],
  };
  page.close();
  return shown;
}

/** An answer is given anew while it waits for a yes. */
async function anewWaiting() {
  const page = await open();
  await answered(page, page.chat().sendMessage({ text: scenarios.approval.ask }));
  const { id: first } = page.chat().messages.at(-1);
  const { approval } = partOf(page, (part) => part.state === 'approval-requested');
  await answered(page, page.chat().regenerate());
  const { id: second } = page.chat().messages.at(-1);
  const waiting = await Promise.all(
    [first, second].map((runId) => route(`/pending?runId=${runId}`)),
  );
  const late = await route(`/runs/${first}/answer`, {
    approvalId: approval.id,
    decision: 'approve',
  }).then(
    () => 'taken',
    () => 'refused',
  );
  page.close();
  return { open: waiting.map(({ length }) => length), late, isOther: first !== second };
}

/**
 * Two pages of a person take the same answer back at once, then one of another person, who knows
 * the ids.
 */
async function anewTwice() {
  const { ask: asked } = wordsFor('use-chat at once');
  const first = await open();
  await answered(first, first.chat().sendMessage({ text: asked }));
  const { messages } = first.chat();
  const second = await open({ id: first.id, messages });
  await Promise.all([first, second].map((page) => answered(page, page.chat().regenerate())));
  const before = await kept(first.id);
  const other = await open({ id: first.id, messages, as: { authorization: 'Bearer carl' } });
  await answered(other, other.chat().regenerate());
  const after = await kept(first.id);
  for (const page of [first, second, other]) page.close();
  return { kept: before, isLeftAlone: JSON.stringify(after) === JSON.stringify(before) };
}

export const useChatPlays = () =>
  play({
    text: () => ask(scenarios.text.ask),
    call: () => ask(scenarios.call.ask),
    injected: () => ask(scenarios.injected.ask),
    failedCall: () => ask(scenarios.failedCall.ask),
    failedRun: () => ask(scenarios.failedRun.ask),
    ...(scenarios.cited && { cited, stopped }),
    ...(scenarios.anew && { anew, anewUnderWay, anewWaiting, anewTwice }),
    approved: () => decide(true),
    denied: () => decide(false),
    question,
    clientTool,
    abort,
    reconnect,
  });
