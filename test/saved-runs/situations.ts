import type { LoopRequest, Policy } from '@toolloop/core';
import { summarised } from '@toolloop/core/history';
import { toolSearch, unlock } from '@toolloop/core/strategies';
import type { PendingKind } from '@toolloop/core/stores';
import { call, calls, ScriptedModel, type ScriptedTurn, text } from '@toolloop/testing';
import { IsInt, Max } from 'class-validator';
import { alice, type Kind, mia, type Reply, type Setup } from './desk.js';
import type { Passage } from './passage.js';

/**
 * The place at which the process dies: in a tool, once it has acted; behind a call of a store; or
 * when the model is asked. The first time, or a later one.
 */
export interface Death {
  readonly at: 'effect' | 'model' | `${string}.${string}`;
  readonly time?: number;
}

/** The kinds of a situation that names none. */
export const KINDS: readonly Kind[] = ['kept', 'durable'];

export type Replies = Partial<Readonly<Record<PendingKind, Reply>>>;

/** A moment at which a run is stored, how it is reached, and what happens then. */
export interface Situation {
  readonly name: string;
  /** @default both */
  readonly kinds?: readonly Kind[];
  readonly setup?: Setup;
  readonly request?: Partial<LoopRequest>;
  /** What the model says until then. */
  readonly script: readonly ScriptedTurn[];
  /** @default once the run waits */
  readonly reach?: (passage: Passage) => Promise<unknown>;
  readonly dies?: Death;
  /** Set where no process is to continue a run that was answered. */
  readonly isIdle?: boolean;
  /** Set where no run continues before the directives are performed. */
  readonly isDirectiveFirst?: boolean;
  /** What the model says from then on. */
  readonly after: readonly ScriptedTurn[];
  /** The answers to what is asked. @default yes, and values that fit */
  readonly replies?: Replies;
  /** The tools about whose calls it is, by their declared ids. */
  readonly about: readonly string[];
  /** The answers to what is asked after it was stored. @default those before */
  readonly repliesAfter?: Replies;
}

const desk = (id: string, key = 'a'): ReturnType<typeof call> => call(`desk__${id}`, { key });
const DONE = text('Done.');
const ASKING: Policy = {
  version: 'asking',
  allow: ['*'],
  flow: 'off',
  requireApproval: [
    {
      tools: ['desk__write', 'desk__keyed', 'order_*_cancel'],
      roles: ['manager'],
      reason: 'It writes.',
      mayEdit: true,
      mayRemember: true,
    },
  ],
};
const FLOW = (flow: Policy['flow']): Policy => ({ version: String(flow), allow: ['*'], flow });

/** Approves what waits, so that the run continues in this process. */
const approving = async (passage: Passage): Promise<void> => {
  await passage.run();
  await passage.answerAll();
  await passage.goOn();
};

/** A turn that calls a tool with the newest reference that the model has read. */
const using =
  (id: string): ScriptedTurn =>
  ({ messages }) => {
    const told = messages.map(({ content }) => JSON.stringify(content)).join('\n');
    return calls(desk(id, told.match(/⟦v-[^⟧]*⟧/g)?.at(-1) ?? 'no reference'));
  };

class Count {
  @IsInt() @Max(9) count!: number;
}

const APPROVALS: readonly Situation[] = [
  {
    name: 'an approval',
    setup: { policy: ASKING },
    script: [calls(desk('write'))],
    after: [DONE],
    about: ['desk__write'],
  },
  {
    name: 'an approval with an edit',
    setup: { policy: ASKING },
    script: [calls(desk('write'))],
    reach: async (passage) => {
      await passage.run();
      await passage.answerAll();
    },
    isIdle: true,
    replies: { approval: { person: mia, amendment: { args: { key: 'edited' } } } },
    after: [DONE],
    about: ['desk__write'],
  },
  {
    name: 'an approval that is remembered',
    setup: { policy: ASKING },
    script: [calls(desk('write')), calls(desk('write', 'b'), desk('keyed', 'c'))],
    reach: approving,
    replies: { approval: { person: mia, amendment: { remember: true } } },
    after: [calls(desk('write', 'd')), DONE],
    about: ['desk__keyed'],
  },
  {
    name: 'two approvals in one step',
    setup: { policy: ASKING },
    script: [calls(desk('look'), desk('write'), desk('keyed', 'b'), desk('send', 'c'))],
    after: [DONE],
    about: ['desk__write', 'desk__keyed'],
  },
  {
    name: 'an approval about an entity',
    setup: { policy: ASKING },
    script: [
      calls(call('shop__findOrder', { id: 'o-1' })),
      calls(call('order_o-1_cancel', { reason: 'Late.' })),
    ],
    after: [calls(call('order_o-1_lines')), DONE],
    about: ['order_*_cancel'],
  },
];

const ASKED: readonly Situation[] = [
  {
    name: 'a question within a call',
    script: [calls(desk('inquire'))],
    replies: { question: { person: alice, answer: 3 } },
    after: [DONE],
    about: ['desk__inquire'],
  },
  {
    name: 'a question before a call',
    script: [calls(desk('choose'))],
    replies: { question: { person: alice, answer: 'large' } },
    after: [DONE],
    about: ['desk__choose'],
  },
  {
    name: 'a call of the client',
    script: [calls(desk('sign'))],
    after: [DONE],
    about: ['desk__sign'],
  },
  {
    name: 'an approval in a sub-run',
    setup: { policy: ASKING },
    script: [
      calls(call('desk__delegate', { prompt: 'Look and write.' })),
      calls(desk('look')),
      calls(desk('write')),
    ],
    after: [text('Written.'), DONE],
    about: ['desk__write'],
  },
];

const STAND_INS: readonly Situation[] = [
  {
    name: 'a rehearsal that is shown',
    request: { rehearse: true },
    script: [calls(desk('look'), desk('write')), calls(desk('keyed', 'b')), DONE],
    after: [],
    about: ['desk__write', 'desk__keyed'],
  },
  {
    name: 'a rehearsal that is half performed',
    request: { rehearse: true },
    script: [calls(desk('write'), desk('keyed', 'b')), DONE],
    reach: approving,
    dies: { at: 'journal.finish' },
    after: [],
    about: ['desk__keyed'],
  },
  {
    name: 'a directive that is issued and performed',
    setup: { policy: ASKING },
    script: [calls(desk('book', 'r')), calls(desk('write'))],
    reach: async (passage) => {
      await passage.run();
      await passage.settle();
    },
    after: [DONE],
    about: ['desk__write'],
  },
  {
    name: 'a directive that is due',
    setup: { policy: ASKING },
    kinds: ['durable'],
    script: [calls(desk('book', 'r')), calls(desk('write'))],
    dies: { at: 'directives.add' },
    isDirectiveFirst: true,
    after: [calls(desk('write')), DONE],
    about: ['desk__book', 'desk__write'],
  },
  {
    name: 'a directive that was begun',
    setup: { policy: ASKING },
    script: [calls(desk('book', 'r'), desk('write'))],
    dies: { at: 'directives.acquire' },
    reach: async (passage) => {
      await passage.run();
      await Promise.all([passage.stand(), passage.death]);
    },
    after: [DONE],
    about: ['desk__book', 'desk__write'],
  },
];

const CRASHES: readonly Situation[] = [
  {
    name: 'a crash between two steps',
    kinds: ['durable'],
    script: [calls(desk('look'), desk('write')), DONE],
    dies: { at: 'model', time: 2 },
    after: [calls(desk('write', 'b')), DONE],
    about: ['desk__write'],
  },
  {
    name: 'a crash behind the key of a call',
    setup: { policy: ASKING },
    script: [calls(desk('write'), desk('send', 'b'))],
    reach: approving,
    dies: { at: 'effect' },
    after: [DONE],
    repliesAfter: { approval: { person: mia, decision: 'deny' } },
    about: ['desk__write', 'desk__send'],
  },
  {
    name: 'a crash before a call that may be repeated',
    setup: { policy: ASKING },
    script: [calls(desk('keyed'))],
    reach: approving,
    dies: { at: 'journal.acquire' },
    after: [DONE],
    about: ['desk__keyed'],
  },
  {
    name: 'a crash behind the outcome of a call',
    setup: { policy: ASKING },
    script: [calls(desk('write'), desk('send', 'b'))],
    reach: approving,
    dies: { at: 'journal.finish' },
    after: [DONE],
    about: ['desk__send'],
  },
  {
    name: 'a structured answer that is to be corrected',
    kinds: ['durable'],
    setup: { loop: { output: Count } },
    script: [calls(desk('write')), text('{"count":12}'), DONE],
    dies: { at: 'model', time: 3 },
    after: [text('{"count":3}')],
    about: [],
  },
];

const FLOWS: readonly Situation[] = [
  {
    name: 'words from outside at taint',
    setup: { policy: FLOW('taint') },
    script: [calls(desk('outside'), desk('parcel')), calls(desk('send', 'mallory'))],
    replies: { approval: { person: alice, decision: 'approve' } },
    after: [calls(desk('send', 'again')), text('Done.'), DONE],
    about: ['desk__send'],
  },
  {
    name: 'hidden values at values',
    setup: { policy: FLOW('values') },
    script: [calls(desk('outside'), desk('parcel')), using('send')],
    replies: { approval: { person: alice, decision: 'approve' } },
    after: [DONE],
    about: ['desk__send'],
  },
  {
    name: 'a value that is trusted',
    setup: {
      policy: {
        ...FLOW('values'),
        endorsements: [{ tools: ['desk__send'], arguments: ['key'] }],
      },
    },
    script: [calls(desk('outside')), using('send'), calls(desk('sign'))],
    reach: approving,
    replies: {
      approval: { person: alice, amendment: { endorse: { arguments: ['key'] } } },
    },
    after: [DONE],
    about: ['desk__sign'],
  },
];

const TOOLS: readonly Situation[] = [
  {
    name: 'a tool that was unlocked',
    setup: {
      policy: ASKING,
      loop: { injection: [unlock({ after: 'desk__look', tools: ['desk__write'] })] },
    },
    script: [calls(desk('look')), calls(desk('write'))],
    after: [calls(desk('look', 'b')), DONE],
    about: ['desk__write'],
  },
  {
    name: 'a tool that was found',
    setup: { policy: ASKING, loop: { injection: [toolSearch({ tools: ['desk__*'] })] } },
    script: [calls(call('tools__search', { query: 'write' })), calls(desk('write'))],
    after: [DONE],
    about: ['desk__write'],
  },
  {
    name: 'budgets near their limits',
    setup: {
      policy: { ...ASKING, runBudgets: [{ tools: ['desk__send'], calls: 2 }] },
      quotas: [{ quantity: 'calls', most: 4, windowMs: 1_000_000_000_000 }],
    },
    script: [calls(desk('send'), desk('look')), calls(desk('write'))],
    after: [calls(desk('send', 'b')), calls(desk('send', 'c')), calls(desk('look', 'd')), DONE],
    about: ['desk__write'],
  },
];

const TALK: readonly Situation[] = [
  {
    name: 'a turn that is queued',
    kinds: ['durable'],
    request: { conversationId: 'c' },
    script: [calls(desk('look')), text('It is a.'), calls(desk('write'))],
    reach: async (passage) => {
      await passage.run();
      await passage.run({ prompt: 'Write.' });
      await passage.runBeside({ prompt: 'Really?', whenBusy: 'addInput' });
      void passage.runBeside({ prompt: 'And then?' });
      await passage.queue(2);
    },
    dies: { at: 'effect' },
    after: [text('Yes.'), DONE],
    repliesAfter: { approval: { person: alice, decision: 'deny' } },
    about: ['desk__write'],
  },
  {
    name: 'an approval in a conversation',
    setup: { policy: ASKING },
    request: { conversationId: 'c' },
    script: [calls(desk('look')), text('It is a.'), calls(desk('write'))],
    reach: async (passage) => {
      await passage.run();
      await passage.run({ prompt: 'Write.' });
    },
    after: [DONE],
    about: ['desk__write'],
  },
  {
    name: 'a history that was summarised',
    setup: {
      policy: ASKING,
      loop: {
        history: summarised({
          messages: 3,
          model: new ScriptedModel(['one', 'two', 'three', 'four'].map((word) => text(word))),
        }),
      },
    },
    script: [calls(desk('look')), calls(desk('look', 'b')), calls(desk('write'))],
    after: [DONE],
    about: ['desk__write'],
  },
];

export const SITUATIONS: readonly Situation[] = [
  ...APPROVALS,
  ...ASKED,
  ...STAND_INS,
  ...CRASHES,
  ...FLOWS,
  ...TOOLS,
  ...TALK,
];
