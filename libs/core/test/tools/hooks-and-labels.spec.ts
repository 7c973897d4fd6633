import { describe, expect, it } from '@jest/globals';
import { Injectable, type Type } from '@nestjs/common';
import { Expose } from 'class-transformer';
import { LlmTool, tool, type Tool, ToolParam, ToolProvider, ToolSource } from '@toolloop/core';
import { findingsOf, start } from './application.js';
import { toolOf } from './tools.js';

const sends = { description: 'Sends.', effect: 'external_side_effect', reveal: 'all' } as const;

/** A provider whose one tool takes `to` and `text`, with methods beside it. */
function providerOf(options: object): Type {
  class Shared {
    mayWrite(): boolean {
      return true;
    }
  }

  @Injectable()
  @ToolProvider({ namespace: 'mail' })
  class MailTools extends Shared {
    readonly notAMethod = 'text';

    @LlmTool({ ...sends, ...options })
    send(
      @ToolParam('to', { description: 'x', type: 'string' }) to: string,
      @ToolParam('text', { description: 'x', type: 'string' }) text: string,
    ): string {
      return to + text;
    }

    previewSend(): string {
      return 'Sends it.';
    }

    get getter(): () => boolean {
      throw new Error('never read');
    }
  }
  return MailTools;
}

const SCHEMA = {
  type: 'object',
  properties: { to: { type: 'string' }, text: { type: 'string' } },
  additionalProperties: false,
} as const;

const rawOf = (options: object) =>
  tool({ ...sends, id: 'raw_send', input: SCHEMA, execute: () => 1, ...options });

function sourceOf(change: (made: Tool) => object): Type<ToolSource> {
  return class extends ToolSource {
    readonly origin = { source: 'remote', trusted: true };
    override tools(): readonly Tool[] {
      const made = toolOf({
        id: 'remote_send',
        effect: 'external_side_effect',
        schema: SCHEMA,
        origin: this.origin,
      });
      return [{ ...made, ...change(made) }];
    }
  };
}

describe('a hook that is named', () => {
  it.each([
    ['preview', 'previewSent', 'Did you mean "previewSend"?'],
    ['canCall', 'mayWriet', 'Did you mean "mayWrite"?'],
    ['canCall', 'notAMethod', 'There are: mayWrite, send, previewSend.'],
    ['canCall', 'getter', 'There are: mayWrite, send, previewSend.'],
    ['preview', 'constructor', 'There are: mayWrite, send, previewSend.'],
  ])('is a method of the class: %s %s', async (option, name, remedy) => {
    const problem = `Its ${option} names "${name}", and MailTools has no such method.`;
    expect(await findingsOf({ providers: [providerOf({ [option]: name })] })).toEqual([
      { at: 'MailTools.send', problem, remedy },
    ]);
  });

  it('is named by a text', async () => {
    expect(
      await findingsOf({ providers: [providerOf({ preview: () => 'x', canCall: 1 })] }),
    ).toMatchObject([
      {
        problem: 'Its canCall is 1.',
        remedy: 'Give the name of a method of the class or a function.',
      },
      { problem: 'Its preview is a function.', remedy: 'Give the name of a method of the class.' },
    ]);
  });

  it('may be inherited', async () => {
    await expect(
      start({ providers: [providerOf({ preview: 'previewSend', canCall: 'mayWrite' })] }),
    ).resolves.toBeDefined();
  });

  it('is a method of an entity too', async () => {
    @ToolProvider({ prefix: 'letter' })
    class Letter {
      @Expose() readonly id = 'l1';
      @LlmTool({ ...sends, preview: 'shown' }) send(): void {}
    }
    @ToolProvider({ namespace: 'post' })
    class PostTools {
      @LlmTool({ description: 'Finds.', effect: 'read_only', output: Letter }) find(): Letter {
        return new Letter();
      }
    }
    expect(await findingsOf({ providers: [PostTools] })).toMatchObject([
      { at: 'Letter.send', problem: 'Its preview names "shown", and Letter has no such method.' },
    ]);
  });
});

describe('a hook of a tool without a class', () => {
  it.each(['canCall', 'preview'])('is a function: %s', async (option) => {
    const remedy = 'Give a function.';
    const options = { tools: [rawOf({ [option]: 'previewSend' })] };
    expect(
      await findingsOf({ options, providers: [sourceOf(() => ({ [option]: true }))] }),
    ).toMatchObject([
      { at: 'tool raw_send', problem: `Its ${option} is "previewSend".`, remedy },
      { at: 'remote: remote_send', problem: `Its ${option} is true.`, remedy },
    ]);
  });
});

const mistakes: [object, string, string][] = [
  [
    { decisive: ['too'] },
    'Its label "decisive" names "too", and the tool has no such argument.',
    'Did you mean "to"?',
  ],
  [
    { decisive: ['recipient'] },
    'Its label "decisive" names "recipient", and the tool has no such argument.',
    'There are: to, text.',
  ],
  [{ decisive: 'to' }, 'Its label "decisive" is "to".', 'Give a list of the names of arguments.'],
  [
    { accepts: { untrustd: true } },
    'There is no label accepts "untrustd".',
    'Did you mean "untrusted"?',
  ],
  [{ accepts: { private: 'yes' } }, 'Its label "accepts.private" is "yes".', 'Give true or false.'],
  [
    { accepts: true },
    'Its label "accepts" is true.',
    'Give { untrusted: true }, { private: true } or both.',
  ],
  [{ returns: 'public' }, 'Its label "returns" is "public".', "Give 'trusted' or 'untrusted'."],
  [{ reads: 'privat' }, 'Its label "reads" is "privat".', 'Did you mean "private"?'],
  [{ egress: 'no' }, 'Its label "egress" is "no".', 'Give true or false.'],
  [{ return: 'trusted' }, 'There is no label "return".', 'Did you mean "returns"?'],
];

describe('labels', () => {
  it.each(mistakes)('are checked at the start: %j', async (labels, problem, remedy) => {
    const contributed = sourceOf(({ spec }) => ({
      spec: { ...spec, labels: { ...spec.labels, ...labels } },
    }));
    const found = await findingsOf({
      providers: [providerOf({ labels }), contributed],
      options: { tools: [rawOf({ labels })] },
    });
    const places = ['MailTools.send', 'tool raw_send', 'remote: remote_send'];
    expect(found).toEqual(places.map((at) => ({ at, problem, remedy })));
  });

  it('start the application when they are right', async () => {
    const labels = {
      returns: 'trusted',
      reads: 'public',
      egress: false,
      accepts: { untrusted: true, private: false },
      decisive: ['to'],
    };
    const application = {
      providers: [providerOf({ labels })],
      options: { tools: [rawOf({ labels: { decisive: [] } })] },
    };
    await expect(start(application)).resolves.toBeDefined();
  });
});
