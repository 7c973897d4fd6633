import { afterEach, describe, expect, it } from '@jest/globals';
import { LlmTool, type ToolCallContext, ToolContext, ToolProvider } from '@toolloop/core';
import { Module } from '@nestjs/common';
import { call, calls, ScriptedModel } from '@toolloop/testing';
import { ask, closeApps, headersOf, type Served, serveApp } from './served-app.js';

/** The runs whose payment has begun. */
const begun: ((runId: string) => void)[] = [];

@ToolProvider({ namespace: 'bank' })
class BankTools {
  @LlmTool({ description: 'Pays.', effect: 'external_side_effect', reveal: 'all' })
  pay(@ToolContext() { runId, signal }: ToolCallContext): Promise<string> {
    begun.shift()?.(runId);
    return new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(new Error('Cut off.')), { once: true });
    });
  }
}

@Module({ providers: [BankTools] })
class BankModule {}

afterEach(closeApps);

function bank(): Promise<Served> {
  const model = new ScriptedModel([calls(call('bank__pay', {}))], { perRun: true });
  return serveApp({
    model,
    modules: [BankModule],
    loop: { policy: { version: 'v1', allow: ['bank__pay'], flow: 'off' } },
  });
}

const user = { id: 'm', role: 'user' };
const parts = [{ type: 'text', text: 'Pay.' }];
const openAi = { model: 'toolloop', messages: [{ ...user, content: 'Pay.' }] };

/** Every way in which the end of a run is told over HTTP: what is asked, and the status. */
const SURFACES: readonly (readonly [name: string, path: string, body: object, status: number])[] = [
  ['one result', '/chat/answer', { message: 'Pay.' }, 503],
  ['events', '/chat', { message: 'Pay.' }, 200],
  ['a call by hand', '/tools/bank__pay', {}, 503],
  ['AI SDK', '/ai/chat', { id: 'c', messages: [{ ...user, parts }] }, 200],
  ['AG-UI', '/ai/agui', { threadId: 't', runId: 'r', messages: openAi.messages }, 200],
  [
    'the assistant transport',
    '/ai/assistant',
    { commands: [{ type: 'add-message', message: { ...user, parts } }] },
    200,
  ],
  ['the data stream', '/ai/data-stream', { messages: openAi.messages }, 200],
  ['chat completions', '/v1/chat/completions', { ...openAi, stream: true }, 200],
  ['one chat completion', '/v1/chat/completions', openAi, 503],
];

const TOLD = 'It is unknown whether bank__pay took place: check before you call it again.';

describe('a run that is cancelled while a write is under way', () => {
  it.each(SURFACES)(
    'names the call whose outcome is unknown in its end: %s',
    async (_name, path, body, status) => {
      const served = await bank();
      const started = new Promise<string>((resolve) => begun.push(resolve));
      const answering = ask(served, 'alice', body, path);
      await stop(served, await started);
      const answer = await answering;
      expect(answer.status).toBe(status);
      const last = (await answer.text()).trim().split('\n').findLast(isTelling);
      expect(last).toContain(TOLD);
      expect(answer.headers.get('retry-after')).toBeNull();
    },
  );
});

describe('a chat completion that is not streamed', () => {
  it('is an error if its run has failed, which its client does not repeat by itself', async () => {
    const served = await serveApp({ model: new ScriptedModel([]) });
    const answer = await ask(served, 'alice', openAi, '/v1/chat/completions');
    expect([answer.status, answer.headers.get('x-should-retry')]).toEqual([502, 'false']);
    expect(await answer.json()).toMatchObject({ error: { code: 'model_error' } });
  });
});

/** Leaves out the frames by which a protocol says that nothing follows. */
function isTelling(line: string): boolean {
  return line !== '' && line !== 'data: [DONE]';
}

/** Ends a run as its owner does, or with the process if it is a call by hand and no run. */
async function stop({ url, app }: Served, runId: string): Promise<void> {
  const path = `${url}/runs/${runId}/cancel`;
  const response = await fetch(path, { method: 'POST', headers: headersOf('alice'), body: '{}' });
  if (response.status !== 202) await app.close();
}
