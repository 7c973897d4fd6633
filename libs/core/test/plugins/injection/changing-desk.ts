import {
  LlmTool,
  type LoopRequest,
  type Policy,
  type RawTool,
  tool,
  ToolCatalog,
  type ToolEffect,
  ToolLoopService,
  ToolProvider,
  type ToolSelector,
  type ToolSpec,
} from '@toolloop/core';
import { DataPolicyEngine } from '@toolloop/core/policy';
import { PolicyService } from '@toolloop/core/runs';
import * as fc from 'fast-check';
import type { Declared } from '../../tools/application.js';
import { fine, open, Remote, remoteTool } from '../sources/remote.js';

@ToolProvider({ namespace: 'crm' })
export class CrmTools {
  @LlmTool(fine) search(): void {}
  @LlmTool({ ...fine, effect: 'state_change' }) rename(): void {}
}

export const ROOT = { actor: { id: 'root' }, tenant: 'acme' };
const WHEN: Readonly<Record<string, (who: Who) => boolean>> = {
  desk__ada: ({ id }) => id === 'ada',
  desk__flag: ({ flag }) => flag,
  desk__globex: ({ tenant }) => tenant === 'globex',
};

/** Whom a run acts for, and its context. */
interface Who {
  readonly tenant: string;
  readonly id: string;
  readonly roles: readonly string[];
  readonly flag: boolean;
}

type RawToolWhen = NonNullable<Parameters<typeof tool>[0]['when']>;

function deskTool(id: string, effect: ToolEffect = 'read_only'): RawTool {
  const holds = WHEN[id];
  const when: RawToolWhen = ({ actor, tenant, context }) => {
    const { id: actorId, roles } = actor as Who;
    return holds?.({ tenant, id: actorId, roles, flag: context['flag'] === true }) ?? false;
  };
  return tool({
    id,
    description: `Does ${id}.`,
    effect,
    reveal: 'all',
    ...(Object.hasOwn(WHEN, id) && { when }),
    execute: () => 'done',
  });
}

export const DESK = [
  deskTool('desk__read'),
  deskTool('desk__ada'),
  deskTool('desk__write', 'state_change'),
  deskTool('desk__flag'),
  deskTool('desk__send', 'external_side_effect'),
  deskTool('desk__globex'),
];

const remotes = (...ids: readonly string[]) => ids.map((id) => remoteTool(`github__${id}`));

export async function desk({ options, ...more }: Declared = {}) {
  const remote = new Remote(() => remotes('x'));
  const started = await open([remote], {
    providers: [CrmTools],
    options: { tools: DESK, operators: () => 'all', ...options },
    ...more,
  });
  const { module } = started;
  const loop: ToolLoopService = module.get(ToolLoopService);
  const list = async (
    whom: Partial<Who>,
    request: Partial<LoopRequest> = {},
  ): Promise<readonly ToolSpec[]> => loop.list(asked(whom, request));
  return {
    ...started,
    loop,
    remote,
    list,
    ids: async (...given: Parameters<typeof list>) => idsOf(await list(...given)),
    policies: module.get<PolicyService>(PolicyService),
    engine: module.get(DataPolicyEngine),
    catalog: module.get<ToolCatalog>(ToolCatalog),
  };
}

type Desk = Awaited<ReturnType<typeof desk>>;

export function asked(
  { tenant = 'acme', id = 'ada', roles = [], flag = false }: Partial<Who>,
  more: Partial<LoopRequest> = {},
) {
  return { actor: { id, roles }, tenant, context: { flag }, prompt: 'Go on.', ...more } as const;
}

export function idsOf(specs: readonly ToolSpec[]): string[] {
  return specs.map(({ id }) => id);
}

/** What is in force, told without the code under test. */
export interface InForce {
  application: readonly Policy[];
  readonly tenants: Map<string, Policy>;
  stops: readonly {
    readonly stopId: string;
    readonly tenant?: string;
    readonly tool?: string;
    readonly source?: string;
  }[];
}

type Selection = Pick<LoopRequest, 'tools' | 'exclude'>;

export interface Wanted extends Who {
  readonly selection: Selection;
  readonly policy?: Policy | undefined;
}

/** The ids that a run must begin with: decided anew for each tool, by the words of the policies. */
export function expected(
  { catalog }: Desk,
  { application, tenants, stops }: InForce,
  wanted: Wanted,
  assumed?: readonly string[],
): string[] {
  const { tenant, roles, selection } = wanted;
  const narrower = [wanted.policy, tenants.get(tenant)].filter((policy) => policy !== undefined);
  const deciding = application.filter(({ shadow }) => shadow !== true);
  const heldRoles = assumed ? [roles, roles.filter((role) => assumed.includes(role))] : [roles];
  return idsOf(
    catalog.list().filter((spec) => {
      const source = spec.id.startsWith('github__') ? 'github' : 'application';
      const isStopped = stops.some(
        (one) =>
          isAbout(one.tenant, tenant) && isAbout(one.tool, spec.id) && isAbout(one.source, source),
      );
      const isAllowed = [...narrower, ...deciding].every((policy) =>
        heldRoles.every((held) => permits(policy, spec, tenant, held)),
      );
      return (
        !isStopped &&
        deciding.length > 0 &&
        isAllowed &&
        isSelected(spec, selection) &&
        (WHEN[spec.id]?.(wanted) ?? true)
      );
    }),
  );
}

function isAbout(named: string | undefined, given: string): boolean {
  return named === undefined || named === given;
}

function permits(
  { allow, deny = [], effects, tenants = {}, roles = {} }: Policy,
  { id, effect }: ToolSpec,
  tenant: string,
  held: readonly string[],
) {
  const own = [
    ...(Object.hasOwn(tenants, tenant) ? [tenants[tenant]] : []),
    ...held.flatMap((role) => (Object.hasOwn(roles, role) ? [roles[role]] : [])),
  ];
  const isMatched = (patterns: readonly string[], doGlobsCount: boolean) =>
    patterns.some((pattern) =>
      pattern.includes('*') ? doGlobsCount && globbed(pattern, id) : pattern === id,
    );
  const denies = [deny, ...own.map((grants) => grants?.deny ?? [])];
  const allows = [allow, ...own.map((grants) => grants?.allow ?? [])];
  const isTrusted = !id.startsWith('github__');
  if (
    denies.some((patterns) => isMatched(patterns, true)) ||
    !allows.some((patterns) => isMatched(patterns, isTrusted))
  )
    return false;
  return effects?.includes(effect) ?? true;
}

function globbed(pattern: string, id: string): boolean {
  return new RegExp(`^${pattern.replaceAll('*', '.*')}$`).test(id);
}

function isSelected(spec: ToolSpec, { tools, exclude = [] }: Selection): boolean {
  const isNamed = (selector: ToolSelector): boolean => {
    if (typeof selector === 'string')
      return selector.includes('*') ? globbed(selector, spec.id) : selector === spec.id;
    return selector === CrmTools
      ? spec.id.startsWith('crm__')
      : (selector as (one: ToolSpec) => boolean)(spec);
  };
  return (tools?.some(isNamed) ?? true) && !exclude.some(isNamed);
}

// Names that look like what a key could be made of.
export const ROLES = ['staff', 'lead', 'null', '["staff"', 'staff","lead', ''];
const TENANTS = ['acme', 'globex', '[null,"staff"]', 'null'];
export const IDS = [
  'desk__read',
  'desk__ada',
  'desk__write',
  'desk__flag',
  'desk__send',
  'desk__globex',
  'crm__search',
  'crm__rename',
  'github__x',
  'github__y',
];
const pattern = fc.oneof(
  fc.constantFrom('*', 'desk__*', 'crm__*', '*__r*'),
  fc.constantFrom(...IDS),
);
const patterns = fc.array(pattern, { maxLength: 3 });
const grants = fc.record({ allow: patterns, deny: fc.oneof(fc.constant([]), patterns) });
const effects = fc.oneof(
  { weight: 3, arbitrary: fc.constant(undefined) },
  {
    weight: 1,
    arbitrary: fc.subarray<ToolEffect>(['read_only', 'state_change', 'external_side_effect'], {
      minLength: 1,
    }),
  },
);
const granting = (names: readonly string[]) =>
  fc.dictionary(fc.constantFrom(...names), grants, { maxKeys: 2, noNullPrototype: true });
export const anyPolicy: fc.Arbitrary<Policy> = fc
  .record({
    allow: fc.oneof(fc.constant(['*', 'github__x']), patterns),
    deny: fc.oneof(fc.constant([]), patterns),
    effects,
    tenants: granting(TENANTS),
    roles: granting(ROLES),
    flow: fc.constant('off' as const),
  })
  .map(withoutUndefined);
export const who: fc.Arbitrary<Who> = fc.record({
  tenant: fc.constantFrom(...TENANTS),
  id: fc.constantFrom('ada', 'bob'),
  roles: fc.subarray(ROLES),
  flag: fc.boolean(),
});
const readsOnly = ({ effect }: ToolSpec): boolean => effect === 'read_only';
const selector: fc.Arbitrary<ToolSelector> = fc.constantFrom<ToolSelector>(
  '*',
  'desk__*',
  'desk__write',
  'crm__search',
  CrmTools,
  readsOnly,
);
const selection: fc.Arbitrary<Selection> = fc.oneof(
  fc.constant({}),
  fc.record({ tools: fc.array(selector, { maxLength: 3 }) }),
  fc.record({
    tools: fc.array(selector, { maxLength: 3 }),
    exclude: fc.array(selector, { maxLength: 2 }),
  }),
);

type Change =
  | { readonly do: 'list'; readonly wanted: Wanted }
  | { readonly do: 'put'; readonly policies: readonly Policy[] }
  | { readonly do: 'narrow'; readonly tenant: string; readonly policy: Policy }
  | {
      readonly do: 'stop';
      readonly tenant: string | undefined;
      readonly target: { readonly tool?: string; readonly source?: string };
    }
  | { readonly do: 'release' }
  | { readonly do: 'source'; readonly ids: readonly string[] };

const ownPolicies = [
  undefined,
  { allow: ['desk__*'], flow: 'off' },
  { allow: ['*', 'github__x'], roles: { staff: { deny: ['crm__*'] } }, flow: 'off' },
] as const;
export const listing = fc
  .tuple(who, selection, fc.constantFrom<Policy | undefined>(...ownPolicies))
  .map(([one, chosen, own]): Change => ({
    do: 'list',
    wanted: { ...one, selection: chosen, policy: own },
  }));
const shadowed = anyPolicy.map((one): Policy => Object.assign({}, one, { shadow: true }));
export const change: fc.Arbitrary<Change> = fc.oneof(
  {
    weight: 1,
    arbitrary: fc
      .tuple(anyPolicy, fc.option(shadowed))
      .map(([one, more]): Change => ({ do: 'put', policies: more ? [one, more] : [one] })),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('narrow' as const),
      tenant: fc.constantFrom('acme', 'globex'),
      policy: anyPolicy,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('stop' as const),
      tenant: fc.constantFrom(undefined, 'acme', 'globex'),
      target: fc.constantFrom(
        { tool: 'desk__read' },
        { tool: 'crm__search' },
        { source: 'github' },
        {},
      ),
    }),
  },
  { weight: 2, arbitrary: fc.constant<Change>({ do: 'release' }) },
  { weight: 1, arbitrary: fc.subarray(['x', 'y']).map((ids): Change => ({ do: 'source', ids })) },
);

/** Puts a change in force, and notes it. */
export async function apply(app: Desk, state: InForce, one: Change): Promise<void> {
  switch (one.do) {
    case 'list':
      return;
    case 'put':
      await put(app, one.policies, ROOT, { everywhere: true });
      state.application = one.policies;
      return;
    case 'narrow':
      await put(app, [one.policy], { actor: { id: 'ops' }, tenant: one.tenant });
      state.tenants.set(one.tenant, one.policy);
      return;
    case 'stop':
      return stop(app, state, one);
    case 'release':
      return release(app, state);
    case 'source':
      app.remote.answer = () => remotes(...one.ids);
      await app.sources.refresh('github');
  }
}

async function stop(
  app: Desk,
  state: InForce,
  { tenant, target }: Extract<Change, { do: 'stop' }>,
): Promise<void> {
  // A source without tools cannot be named.
  if (
    target.source !== undefined &&
    !idsOf(app.catalog.list()).some((id) => id.startsWith('github__'))
  )
    return;
  const reach = tenant === undefined ? { everywhere: true } : {};
  const { stopId } = await app.policies.stop(
    target,
    { ...ROOT, tenant: tenant ?? 'acme' },
    { reason: 'x', ...reach },
  );
  state.stops = [...state.stops, { stopId, ...(tenant !== undefined && { tenant }), ...target }];
}

async function release({ policies }: Desk, state: InForce): Promise<void> {
  const [first, ...others] = state.stops;
  if (first) await policies.release(first.stopId, ROOT, { reason: 'x' });
  state.stops = others;
}

export async function put(
  { policies }: Desk,
  given: readonly Policy[],
  operator: typeof ROOT,
  reach: { readonly everywhere?: boolean } = {},
) {
  const [newest] = await policies.versions(operator, reach);
  await policies.put(given, operator, { expected: newest?.number ?? 0, reason: 'x', ...reach });
}

function withoutUndefined<T extends object>(given: T): T {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as T;
}
