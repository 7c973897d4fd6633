import { createHash } from 'node:crypto';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  attach,
  LlmTool,
  type Message,
  ToolInterceptor,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import type { Attachment, ToolInvocation } from '@toolloop/core/contracts';
import { type JournalOutcome, MemoryCallJournal } from '@toolloop/core/stores';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { of } from 'rxjs';
import { start } from '../tools/application.js';
import { toolOf, type RawTool } from '../tools/tools.js';
import { Customer } from '../fixtures/shop.js';
import { ask, openModule } from '../fixtures/shop.module.js';
import { Bench, type RunOptions } from './bench.js';

class Chart {
  @Expose() title = 'Sales';
  @Expose({ groups: ['model'] }) hint = 'up';
  secret = 'hidden';
}

const png = Uint8Array.from([1, 2, 3, 4]);
const image: Attachment = { type: 'image', data: png, mediaType: 'image/png' };
const pdf: Attachment = {
  type: 'file',
  data: Buffer.from('pdf'),
  mediaType: 'application/pdf',
  name: 'a.pdf',
};
const imagePart = { type: 'image', url: 'data:image/png;base64,AQIDBA==', mediaType: 'image/png' };
const pdfPart = {
  type: 'file',
  url: 'data:application/pdf;base64,cGRm',
  mediaType: 'application/pdf',
  name: 'a.pdf',
};
const sized = (bytes: number): Attachment => ({ ...image, data: new Uint8Array(bytes) });
const findAda = () => attach([new Customer('c-1', 'Ada')], image);
const startOf = (key: string) => ({
  tenant: 't',
  idempotencyKey: key,
  owner: 'c',
  epoch: 1,
  runId: 'r',
  declaredId: 'd',
  args: '{}',
  forMs: 0,
});
const sha256 = (content: Uint8Array | string): string =>
  createHash('sha256').update(content).digest('hex');

@Injectable()
@ToolProvider({ namespace: 'chart' })
class ChartTools {
  @LlmTool({ description: 'Draws.', effect: 'read_only', output: Chart })
  draw(): unknown {
    return attach(new Chart(), image, pdf);
  }

  @LlmTool({ description: 'Draws nothing to read.', effect: 'read_only', reveal: [] })
  silent(): unknown {
    return attach({ secret: 'hidden' }, image);
  }
}

let bench: Bench;
beforeEach(async () => {
  bench = await Bench.start({ providers: [ChartTools] });
});

const runOf = (
  invoke: NonNullable<RawTool['invoke']>,
  options: RunOptions = {},
  raw: Partial<RawTool> = {},
) =>
  bench.run({
    tools: [toolOf({ id: 'tool', ...raw, invoke })],
    policies: [{ allow: ['tool'] }],
    ...options,
  });
const attaching = (...attachments: unknown[]) =>
  runOf(() => attach('done', ...(attachments as Attachment[])));

describe('a result with attachments', () => {
  it('is projected as ever, and the images and files follow the text', async () => {
    const { content, record } = await bench.run().exec('chart__draw');
    expect(content).toEqual([
      { type: 'text', text: '{"title":"Sales","hint":"up"}' },
      imagePart,
      pdfPart,
    ]);
    expect(record.result).toEqual({ title: 'Sales' });
  });

  it('is in the record for the ui, with what an audit keeps of it', async () => {
    const { record } = await bench.run().exec('chart__draw');
    expect(record.attachments).toEqual([
      { ...imagePart, bytes: 4, sha256: sha256(png) },
      { ...pdfPart, bytes: 3, sha256: sha256('pdf') },
    ]);
  });

  it('may have nothing to read', async () => {
    const { content } = await bench.run().exec('chart__silent');
    expect(content).toEqual([{ type: 'text', text: '{"ok":true}' }, imagePart]);
  });

  it('may be in an envelope', async () => {
    const { content } = await bench
      .run({ execution: { resultFormat: 'envelope' } })
      .exec('chart__draw');
    const envelope = '{"ok":true,"type":"chart__draw","result":{"title":"Sales","hint":"up"}}';
    expect(content).toEqual([{ type: 'text', text: envelope }, imagePart, pdfPart]);
  });

  it('is a plain result when it has none', async () => {
    const { content, record } = await attaching().exec('tool');
    expect(content).toBe('done');
    expect(record).not.toHaveProperty('attachments');
  });

  it('reaches the model as the result of its call, in the run of one tenant only', async () => {
    const model = new ScriptedModel([calls(call('chart__draw', {})), text('Seen.')]);
    const module = await start({ providers: [ChartTools], options: { model } });
    const result = await module.get(ToolLoopService).run(ask());
    const sent = model.requests[1]?.messages.at(-1);
    expect(sent).toMatchObject({
      role: 'tool',
      content: [{ type: 'text' }, imagePart, pdfPart],
      labels: { returns: 'untrusted' },
    });
    expect(result.messages).toContainEqual(sent);
    expect(result.toJSON()).toMatchObject({
      toolCalls: [{ attachments: [{ type: 'image' }, { type: 'file' }] }],
    });
  });

  it('can be passed back to continue', async () => {
    const model = new ScriptedModel([
      calls(call('chart__draw', {})),
      text('Seen.'),
      text('Still.'),
    ]);
    const loop = (await start({ providers: [ChartTools], options: { model } })).get(
      ToolLoopService,
    );
    const { messages } = await loop.run(ask());
    const more: Message[] = [...messages, { role: 'user', content: 'And?' }];
    await loop.run(ask({ messages: more }));
    expect(model.requests[2]?.messages.map(({ content }) => content)).toEqual(
      more.map(({ content }) => content),
    );
  });

  it('is the plain value to injection', async () => {
    const model = new ScriptedModel([calls(call('probe__customers', { key: 'x' })), text('Done.')]);
    const module = await openModule(model);
    const result = await module.get(ToolLoopService).run(ask({ context: { act: findAda } }));
    expect(result.injectedTools.map(({ id }) => id)).toContain('customer_c-1_getAverageSpend');
    expect(result.toolCalls[0]).toMatchObject({
      result: [{ id: 'c-1', name: 'Ada' }],
      attachments: [{ type: 'image' }],
    });
  });

  it('may end a stream; what comes before shows its value', async () => {
    const run = runOf(() => of(attach(1, pdf), attach(2, image)));
    const outcome = await run.exec('tool');
    expect(outcome.content).toEqual([{ type: 'text', text: '2' }, imagePart]);
    expect(outcome.live).toBe(2);
    expect(run.events.filter(({ type }) => type === 'tool-progress')).toMatchObject([{ value: 1 }]);
  });

  it('is refused where it is inside of another value', async () => {
    const { record } = await runOf(() => ({ chart: attach('x', image) })).exec('tool');
    expect(record.error?.code).toBe('invalid_output');
  });
});

describe('interceptors and attachments', () => {
  const seen: unknown[] = [];
  const startWith = (change: (result: unknown) => unknown): Promise<Bench> => {
    class Changing extends ToolInterceptor {
      override async intercept(_: ToolInvocation, next: () => Promise<unknown>): Promise<unknown> {
        const result = await next();
        seen.push(result);
        return change(result);
      }
    }
    return Bench.start({ providers: [ChartTools], ports: [Changing] });
  };

  it('see the value plain when they change it, and lose no attachment', async () => {
    bench = await startWith((result) => `${String(result)}!`);
    const outcome = await runOf(() => attach('done', image)).exec('tool');
    expect(seen).toEqual(['done']);
    expect(outcome.content).toEqual([{ type: 'text', text: 'done!' }, imagePart]);
    expect(outcome.live).toBe('done');
  });

  it.each<[string, Attachment[], unknown]>([
    ['others', [pdf], [{ type: 'text', text: 'done' }, pdfPart]],
    ['none', [], 'done'],
  ])('have, when they attach %s, the last word', async (_, attachments, content) => {
    bench = await startWith((result) => attach(result, ...attachments));
    expect((await runOf(() => attach('done', image)).exec('tool')).content).toEqual(content);
  });
});

describe('an attachment', () => {
  it.each<[string, unknown, unknown]>([
    [
      'at an https: address',
      { type: 'image', url: 'https://acme.test/a.png' },
      { type: 'image', url: 'https://acme.test/a.png' },
    ],
    ['of a kind that is written otherwise', { ...image, mediaType: 'IMAGE/PNG; q=1' }, imagePart],
    ['in base64', { type: 'image', url: imagePart.url }, imagePart],
    [
      'in percents',
      { type: 'file', url: 'data:text/plain;charset=utf-8,a%20b', mediaType: 'text/plain' },
      { type: 'file', url: 'data:text/plain;base64,YSBi', mediaType: 'text/plain' },
    ],
    [
      'in a view of a larger buffer',
      { ...image, data: new Uint8Array(Uint8Array.from([0, ...png, 0]).buffer, 1, 4) },
      imagePart,
    ],
    [
      'with a very long name',
      { ...pdf, name: 'x'.repeat(300) },
      { ...pdfPart, name: 'x'.repeat(255) },
    ],
  ])('is taken %s', async (_, attachment, part) => {
    const { content } = await attaching(attachment).exec('tool');
    expect(content).toEqual([{ type: 'text', text: 'done' }, part]);
  });

  it.each<[string, unknown, string]>([
    [
      'with a secret in its address',
      { type: 'image', url: 'https://user:hunter2@acme.test/a.png' },
      'it has no plain https: or data: URL.',
    ],
    [
      'on the disk',
      { type: 'file', url: 'file:///etc/passwd', mediaType: 'text/plain' },
      'it has no plain https: or data: URL.',
    ],
    [
      'in plain http',
      { type: 'image', url: 'http://169.254.169.254/' },
      'it has no plain https: or data: URL.',
    ],
    [
      'without end',
      { type: 'image', url: `https://acme.test/${'x'.repeat(9000)}` },
      'it has no plain https: or data: URL.',
    ],
    [
      'with a broken escape',
      { type: 'image', url: 'data:image/png,%zz' },
      'its data: URL cannot be decoded.',
    ],
    ['without a media type', { type: 'image', url: 'data:,x' }, 'its data: URL has no media type.'],
    ['with no file type', { type: 'file', url: 'https://acme.test/a' }, 'it has no media type.'],
    ['with a media type that is none', { ...pdf, mediaType: 'pdf,"' }, 'its media type is none.'],
    [
      'that is no image',
      { ...image, mediaType: 'application/pdf' },
      'it is an image by name and application/pdf by media type.',
    ],
    [
      'of another kind',
      { type: 'video', data: png, mediaType: 'video/mp4' },
      'it is neither an image nor a file.',
    ],
    ['that is empty', { ...image, data: new Uint8Array() }, 'it is empty.'],
    ['whose data are text', { ...image, data: 'AQID' }, 'its data are not bytes.'],
    ['that is nothing', undefined, 'it is neither an image nor a file.'],
  ])('is left out, and the model told why: %s', async (_, attachment, problem) => {
    const { content, record } = await attaching(attachment).exec('tool');
    expect([content, record.status]).toEqual([
      `done\n[1 of 1 attachments left out: ${problem}]`,
      'succeeded',
    ]);
    expect(bench.logger.warnings()).toHaveLength(1);
    expect(JSON.stringify([content, record])).not.toContain('hunter2');
  });

  it('is left out when it is larger than what is left of the limit, and those that fit are kept', async () => {
    const run = runOf(() => attach('done', sized(60), sized(50), sized(40)), {
      limits: { attachmentBytes: 100 },
    });
    const { content, record } = await run.exec('tool');
    expect(record.attachments?.map(({ bytes }) => bytes)).toEqual([60, 40]);
    expect(content[0]).toEqual({
      type: 'text',
      text: 'done\n[1 of 3 attachments left out: it is larger than the 40 bytes there is room for.]',
    });
  });

  it.each<[string, unknown]>([
    ['bytes', { ...image, data: new Uint8Array(4 * 1024 * 1024 + 1) }],
    ['base64', { type: 'image', url: `data:image/png;base64,${'A'.repeat(8 * 1024 * 1024)}` }],
    ['percents', { type: 'image', url: `data:image/png,${'%41'.repeat(5 * 1024 * 1024)}` }],
  ])('is not taken as %s when it has more than 4 MB', async (_, attachment) => {
    const { content } = await attaching(attachment, pdf).exec('tool');
    expect(content[0]).toMatchObject({
      text: expect.stringContaining('1 of 2 attachments left out: it is larger than the 4194304'),
    });
  });

  it('is one of 32 at most', async () => {
    const { content, record } = await attaching(...Array.from({ length: 1000 }, () => image)).exec(
      'tool',
    );
    expect([content.length, record.attachments?.length]).toEqual([33, 32]);
  });

  it('takes nothing from the budget of the text, which keeps its note', async () => {
    const run = runOf(() => attach('x'.repeat(5000), image, undefined as never), {
      limits: { resultBytes: 1000 },
    });
    const { content, record } = await run.exec('tool');
    const [{ text: shown }] = content as unknown as [{ text: string }];
    expect(shown).toMatch(/1 of 2 attachments left out: it is neither an image nor a file.\]$/);
    expect([Buffer.byteLength(shown), record.truncated]).toEqual([1000, true]);
  });
});

describe('the journal and attachments', () => {
  it('invariant 13: answers the same call with the same content, to its tenant only', async () => {
    let made = 0;
    const invoke = () => attach({ made: (made += 1) }, image, pdf);
    const write = (tenant: string) =>
      runOf(invoke, { requestId: 'key', tenant }, { effect: 'state_change' }).exec(
        'tool',
        {},
        { index: 0 },
      );
    const [one, again, other] = [await write('acme'), await write('acme'), await write('globex')];
    expect(made).toBe(2);
    expect([again.content, again.record.attachments]).toEqual([
      one.content,
      one.record.attachments,
    ]);
    expect(other.content).not.toEqual(one.content);
  });

  it('keeps the newest in memory, and never drops a call for them', async () => {
    const memory = new MemoryCallJournal();
    const url = 'x'.repeat(24 * 1024 * 1024);
    const outcome: JournalOutcome = {
      status: 'succeeded',
      content: 'ok',
      ui: null,
      attachments: [{ type: 'image', url, bytes: 1, sha256: '' }],
    };
    for (const key of ['1', '2', '3']) {
      await memory.acquire(startOf(key));
      await memory.finish(startOf(key), outcome);
    }
    expect(await memory.acquire(startOf('1'))).toEqual({
      status: 'finished',
      outcome: {
        status: 'succeeded',
        content: 'ok\n[The attachments of this result are not kept any more.]',
        ui: null,
      },
    });
    expect(await memory.acquire(startOf('3'))).toEqual({ status: 'finished', outcome });
  });
});
