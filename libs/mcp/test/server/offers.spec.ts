import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Client, ProtocolError } from '@modelcontextprotocol/client';
import { Injectable } from '@nestjs/common';
import {
  attach,
  ToolContext,
  ToolError,
  ToolLoopService,
  ToolParam,
  ToolProvider,
  type ToolCallContext,
} from '@toolloop/core';
import { AuditStore } from '@toolloop/core/stores';
import { LlmCompletion, LlmPrompt, LlmResource, McpEndpoint, type PromptTurn } from '@toolloop/mcp';
import { Exclude, Expose } from 'class-transformer';
import { closeAll, connect, ERAS, PEOPLE, serve, type Served } from './served-notes.js';

let served: Served;

beforeAll(async () => {
  served = await serve({
    providers: [Desk],
    loop: { policy: POLICY, audit: { key: 'k'.repeat(32) }, sessions: { perActor: 100 } },
  });
});
afterAll(closeAll);

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

class Page {
  @Expose() readonly title: string;
  @Exclude() readonly secret = 'hunter2';

  constructor(title: string) {
    this.title = title;
  }
}

@Injectable()
@ToolProvider({ namespace: 'desk' })
class Desk {
  @LlmPrompt({ description: 'Asks for a summary.', title: 'Summary' })
  summary(
    @ToolParam('number', { description: 'A number' }) number: string,
    @ToolContext() { tenant }: ToolCallContext,
  ): string {
    return `Summarise ${number} of ${tenant}.`;
  }

  @LlmPrompt({ as: 'talk', description: 'Begins a talk.' })
  talk(): PromptTurn[] {
    const resource = { uri: 'desk://manual', mimeType: 'text/plain', text: 'The manual.' };
    return [
      { role: 'assistant', content: 'How can I help?' },
      { role: 'user', content: { type: 'resource', resource } },
    ];
  }

  @LlmPrompt({ description: 'Shows a picture.' })
  picture(): unknown {
    const file = {
      type: 'file',
      data: PNG,
      mediaType: 'application/pdf',
      name: 'half \ud800.pdf',
    } as const;
    return attach('Look at this.', { type: 'image', data: PNG, mediaType: 'image/png' }, file);
  }

  @LlmPrompt({ description: 'Is no prompt.' })
  broken(): unknown {
    return [{ role: 'system', content: 'Obey.' }];
  }

  @LlmPrompt({ description: 'Is for managers.' })
  managers(): string {
    return 'managed';
  }

  @LlmResource({ uri: 'desk://manual', as: 'Manual', description: 'The manual.', reveal: 'all' })
  manual(@ToolContext() { tenant }: ToolCallContext): string {
    return `The manual of ${tenant}.`;
  }

  @LlmResource({
    uri: 'desk://pages/{number}/{part}',
    description: 'A page.',
    output: { type: Page, nullable: true },
  })
  page(
    @ToolParam('number', { description: 'A number' }) number: string,
    @ToolParam('part', { description: 'A part' }) part: string,
  ): Page | null {
    return number === '404' ? null : new Page(`${number}: ${part}`);
  }

  @LlmResource({
    uri: 'desk://logo',
    description: 'The logo.',
    mimeType: 'image/png',
    reveal: 'all',
  })
  logo(): unknown {
    return attach(null, { type: 'image', data: PNG, mediaType: 'image/png' });
  }

  @LlmResource({ uri: 'desk://payroll', description: 'The payroll.', reveal: 'all' })
  payroll(): string {
    return 'secret';
  }

  @LlmResource({ uri: 'desk://closed', description: 'Is closed.', reveal: 'all' })
  closed(): string {
    throw new ToolError('The desk is closed.');
  }

  @LlmResource({ uri: 'desk://fails', description: 'Fails.', reveal: 'all' })
  fails(): string {
    throw new Error('The password is hunter2.');
  }

  @LlmCompletion({ of: 'desk://pages/{number}/{part}', argument: 'number' })
  numbers(
    @ToolParam('value', { description: 'What was typed' }) value: string,
    @ToolParam('part', { description: 'The part', type: 'string', required: false })
    part: string | undefined,
    @ToolContext() { tenant }: ToolCallContext,
  ): string[] {
    return [`${value}1`, `${part ?? 'any'} of ${tenant}`];
  }
}

const POLICY = {
  version: '1',
  flow: 'off',
  allow: ['notes__*', 'desk__*'],
  roles: {
    clerk: { allow: ['notes__*', 'desk__*'], deny: ['desk__managers', 'desk__payroll'] },
    manager: { allow: ['desk__*'] },
  },
} as const;

const refusal = async (asked: Promise<unknown>): Promise<readonly [number, string]> => {
  const { code, message } = (await asked.catch((thrown: unknown) => thrown)) as ProtocolError;
  return [code, message];
};

describe.each(ERAS)('prompts in the era of %s', (era) => {
  const client = async (token = 'alice'): Promise<Client> => connect(served, { era, token });

  it('are listed for those whom policy allows them, with their arguments, and are no tools', async () => {
    const alice = await client();
    const { prompts } = await alice.listPrompts();
    expect(prompts.map(({ name }) => name)).toEqual([
      'desk__summary',
      'talk',
      'desk__picture',
      'desk__broken',
    ]);
    expect(prompts[0]).toEqual({
      name: 'desk__summary',
      title: 'Summary',
      description: 'Asks for a summary.',
      arguments: [{ name: 'number', description: 'A number', required: true }],
    });
    expect((await alice.listTools()).tools.filter(({ name }) => name.startsWith('desk'))).toEqual(
      [],
    );
    expect((await (await client('mia')).listPrompts()).prompts).toHaveLength(5);
  });

  it('are made for the actor and the tenant of the token', async () => {
    const asked = { name: 'desk__summary', arguments: { number: '7' } };
    const { messages } = await (await client()).getPrompt(asked);
    expect(messages).toEqual([
      { role: 'user', content: { type: 'text', text: 'Summarise 7 of acme.' } },
    ]);
    expect(JSON.stringify(await (await client('bob')).getPrompt(asked))).toContain('of globex');
  });

  it('may have several turns, resources and pictures', async () => {
    const alice = await client();
    const { messages } = await alice.getPrompt({ name: 'talk' });
    expect(messages).toEqual([
      { role: 'assistant', content: { type: 'text', text: 'How can I help?' } },
      {
        role: 'user',
        content: {
          type: 'resource',
          resource: { uri: 'desk://manual', mimeType: 'text/plain', text: 'The manual.' },
        },
      },
    ]);
    const shown = (await alice.getPrompt({ name: 'desk__picture' })).messages;
    expect(shown[1]).toEqual({
      role: 'user',
      content: { type: 'image', mimeType: 'image/png', data: PNG.toString('base64') },
    });
    expect(shown[2]).toMatchObject({
      content: {
        resource: { uri: 'attachment:half%20%EF%BF%BD.pdf', mimeType: 'application/pdf' },
      },
    });
  });

  it('are refused in the same words whether policy hides them or there are none', async () => {
    const alice = await client();
    expect(await refusal(alice.getPrompt({ name: 'desk__managers' }))).toEqual([
      -32_602,
      'Unknown prompt: desk__managers',
    ]);
    expect(await refusal(alice.getPrompt({ name: 'desk__nothing' }))).toEqual([
      -32_602,
      'Unknown prompt: desk__nothing',
    ]);
  });

  it('have arguments that are checked, and no turns of another form', async () => {
    const alice = await client();
    expect(
      await refusal(
        alice.getPrompt({ name: 'desk__summary', arguments: { number: '7', tenant: 'globex' } }),
      ),
    ).toEqual([-32_602, expect.stringContaining('tenant')]);
    expect(await refusal(alice.getPrompt({ name: 'desk__summary' }))).toEqual([
      -32_602,
      expect.any(String),
    ]);
    expect(await refusal(alice.getPrompt({ name: 'desk__broken' }))).toEqual([
      -32_603,
      'The prompt could not be made.',
    ]);
  });
});

describe.each(ERAS)('resources in the era of %s', (era) => {
  const client = async (token = 'alice'): Promise<Client> => connect(served, { era, token });

  it('are listed for those whom policy allows them, templates apart', async () => {
    const alice = await client();
    const { resources } = await alice.listResources();
    expect(resources.map(({ uri }) => uri)).toEqual([
      'desk://manual',
      'desk://logo',
      'desk://closed',
      'desk://fails',
    ]);
    expect(resources[0]).toEqual({
      uri: 'desk://manual',
      name: 'Manual',
      description: 'The manual.',
      mimeType: 'text/plain',
    });
    const { resourceTemplates } = await alice.listResourceTemplates();
    expect(resourceTemplates).toEqual([
      {
        uriTemplate: 'desk://pages/{number}/{part}',
        name: 'desk__page',
        description: 'A page.',
        mimeType: 'application/json',
      },
    ]);
    expect((await (await client('mia')).listResources()).resources).toHaveLength(5);
  });

  it('are read for the actor and the tenant of the token, as text, JSON or bytes', async () => {
    const alice = await client();
    const read = async (uri: string) => (await alice.readResource({ uri })).contents;
    expect(await read('desk://manual')).toEqual([
      { uri: 'desk://manual', mimeType: 'text/plain', text: 'The manual of acme.' },
    ]);
    expect(await read('desk://logo')).toEqual([
      { uri: 'desk://logo', mimeType: 'image/png', blob: PNG.toString('base64') },
    ]);
    const uri = 'desk://pages/1%2F2/a%20b';
    expect(await read(uri)).toEqual([
      { uri, mimeType: 'application/json', text: '{"title":"1/2: a b"}' },
    ]);
    expect(
      JSON.stringify(await (await client('bob')).readResource({ uri: 'desk://manual' })),
    ).toContain('of globex');
  });

  it('are not found where there are none, and in the same words where policy hides them', async () => {
    const alice = await client();
    const long = `desk://pages/${'a'.repeat(3000)}/b`;
    for (const uri of [
      'desk://payroll',
      'desk://nothing',
      'desk://pages/404/a',
      'desk://pages/%E0/a',
      'desk://pages/1/2/3',
      long,
    ])
      expect(await refusal(alice.readResource({ uri }))).toEqual([
        -32_602,
        `Resource not found: ${uri}`,
      ]);
  });

  it('say on purpose why they cannot be read, and nothing else', async () => {
    const alice = await client();
    expect(await refusal(alice.readResource({ uri: 'desk://closed' }))).toEqual([
      -32_603,
      'The desk is closed.',
    ]);
    expect((await refusal(alice.readResource({ uri: 'desk://fails' })))[1]).not.toMatch(/hunter2/);
  });

  it('are completed while a person types, for those who may read them', async () => {
    const alice = await client();
    const ref = { type: 'ref/resource', uri: 'desk://pages/{number}/{part}' } as const;
    const { completion } = await alice.complete({
      ref,
      argument: { name: 'number', value: '4' },
      context: { arguments: { part: 'b', x: '1' } },
    });
    expect(completion).toEqual({ values: ['41', 'b of acme'], total: 2, hasMore: false });
    expect(
      (await alice.complete({ ref, argument: { name: 'part', value: '4' } })).completion.values,
    ).toEqual([]);
    const hidden = { type: 'ref/prompt', name: 'desk__managers' } as const;
    expect(
      await refusal(alice.complete({ ref: hidden, argument: { name: 'x', value: '' } })),
    ).toEqual([-32_602, 'There is no desk__managers.']);
  });

  it('are watched by those who may read them, and no others are told', async () => {
    const told: string[] = [];
    const watch = async (token: string, uri: string): Promise<void> => {
      const watcher = await connect(served, { era, token });
      watcher.setNotificationHandler(
        'notifications/resources/updated',
        ({ params }) => void told.push(`${token} ${params.uri}`),
      );
      if (era === '2025') await watcher.subscribeResource({ uri });
      else await watcher.listen({ resourceSubscriptions: [uri] });
    };
    await watch('alice', 'desk://manual');
    await watch('bob', 'desk://manual');
    await watch('mia', 'desk://payroll');
    await watch('alice', 'desk://payroll').catch(() => undefined);
    const endpoint = served.app.get(McpEndpoint);
    await endpoint.resourceChanged('desk://payroll', { tenant: 'acme' });
    await endpoint.resourceChanged('desk://manual', {
      tenant: 'acme',
      actor: PEOPLE['mia']?.actor,
    });
    await endpoint.resourceChanged('desk://manual', { tenant: 'acme' });
    for (let turn = 0; turn < 200 && told.length < 2; turn += 1)
      await new Promise((resolve) => setTimeout(resolve, 5));
    expect(told).toEqual(['mia desk://payroll', 'alice desk://manual']);
  });
});

describe('what clients read', () => {
  it('is in the audit like a call, and is offered to no model', async () => {
    const alice = await connect(served);
    await alice.readResource({ uri: 'desk://payroll' }).catch(() => undefined);
    const listed = await served.app
      .get(ToolLoopService)
      .list({ actor: { id: 'alice', roles: ['clerk'] }, tenant: 'acme' });
    expect(listed.map(({ id }) => id)).toContain('notes__find');
    expect(listed.filter(({ id }) => id.startsWith('desk'))).toEqual([]);
    const audit: AuditStore = served.app.get(AuditStore, { strict: false });
    const denied = (await audit.read('acme', { from: 0, limit: 1000 })).filter((entry) =>
      JSON.stringify(entry).includes('desk__payroll'),
    );
    expect(denied.length).toBeGreaterThan(0);
  });
});

function declared(): Promise<unknown> {
  @Injectable()
  @ToolProvider({ namespace: 'wrong' })
  class Wrong {
    @LlmPrompt({ as: 'same', description: 'A.' })
    first(@ToolParam('count', { description: 'A count' }) count: number): string {
      return String(count);
    }

    @LlmPrompt({ as: 'same', description: 'B.' })
    second(): string {
      return '';
    }

    @LlmResource({ uri: 'no scheme', description: 'C.', reveal: 'all' })
    third(): string {
      return '';
    }

    @LlmResource({ uri: 'a://{b}{c}', description: 'D.', reveal: 'all' })
    fourth(): string {
      return '';
    }

    @LlmResource({ uri: 'a://{b}', description: 'E.', reveal: 'all' })
    fifth(@ToolParam('d', { description: 'D' }) d: string): string {
      return d;
    }

    @LlmCompletion({ of: 'sane', argument: 'x' })
    sixth(@ToolParam('text', { description: 'T' }) text: string): string[] {
      return [text];
    }
  }
  return serve({ providers: [Wrong], loop: { policy: { ...POLICY, allow: ['wrong__*'] } } });
}

it('are findings at the start where they are declared wrongly, all at once', async () => {
  const { message } = (await declared().catch((thrown: unknown) => thrown)) as Error;
  for (const said of [
    'Wrong.first: Its argument "count" is no text',
    'Wrong.second: It is the prompt "same", and so is Wrong.first.',
    'Wrong.third: Its uri has no scheme',
    'Wrong.fourth: Between two variables',
    'Wrong.fifth: Its uri has the variable "b", and the method has no such argument.',
    'Wrong.fifth: It needs the argument "d", which its uri does not have.',
    'Wrong.sixth: It completes "sane", which is no prompt and no resource.',
  ])
    expect(message).toContain(said);
});
