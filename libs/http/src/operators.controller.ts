import { Get, HttpCode, NotFoundException, Param, Post } from '@nestjs/common';
import { PendingService, ToolCatalog } from '@toolloop/core';
import { ActorIdentity, Operators, RunOpener } from '@toolloop/core/internal';
import type { ToolExplanation } from '@toolloop/core/loop';
import type { OperatorAction } from '@toolloop/core/policy';
import { type SourceStatus, ToolSources } from '@toolloop/core/sources';
import {
  isRecord,
  type ListedSource,
  type SourceReport,
  type ViewedActor,
  type ViewedTool,
} from '@toolloop/protocol';
import { firstValueFrom } from 'rxjs';
import { CallerController, CurrentCaller } from './caller.js';
import type { Caller } from './http-options.js';
import { RunStreams } from './run-streams.js';
import { ServedLoop } from './served-loop.js';

/** The actions of operators for which there are routes. */
export const ROUTED_ACTIONS: readonly OperatorAction[] = [
  'explain',
  'killSwitch',
  'policy',
  'replay',
  'runs',
  'sources',
  'undo',
  'usage',
  'audit',
  'viewAs',
];

/** The most runs and requests of a person that are shown to an operator who looks as them. */
const MOST_VIEWED = 50;

/** The sources of tools, for operators. */
@CallerController('sources')
export class SourcesController {
  constructor(
    private readonly sources: ToolSources,
    private readonly catalog: ToolCatalog,
    private readonly operators: Operators,
  ) {}

  @Get()
  async list(@CurrentCaller() caller: Caller): Promise<SourceReport> {
    await this.operators.use(caller, 'sources', { details: { do: 'list' } });
    const findings = await firstValueFrom(this.catalog.findings$);
    return { sources: this.listed(this.sources.list()), findings };
  }

  /**
   * Asks a source for its tools now. They are the tools of all tenants, and so is the permission.
   */
  @Post(':name/refresh')
  @HttpCode(200)
  async refresh(
    @Param('name') name: string,
    @CurrentCaller() caller: Caller,
  ): Promise<readonly ListedSource[]> {
    return this.listed(await this.sources.refresh(name, caller));
  }

  private listed(sources: readonly SourceStatus[]): readonly ListedSource[] {
    return sources.map(({ tools, ...source }) => ({
      ...source,
      tools: tools.map((declaredId) => {
        const { effect, schemaHash } = this.catalog.describe(declaredId);
        const { pinned } = this.catalog.originOf(declaredId) ?? {};
        return { declaredId, effect, schemaHash, ...(pinned && { pinned }) };
      }),
    }));
  }
}

/**
 * The application as another person of the tenant sees it, for operators: lists and reasons, and
 * nothing to act on.
 */
@CallerController('view-as')
export class ViewAsController {
  constructor(
    private readonly served: ServedLoop,
    private readonly catalog: ToolCatalog,
    private readonly streams: RunStreams,
    private readonly pending: PendingService,
    readonly operators: Operators,
    private readonly identity: ActorIdentity,
    readonly opener: RunOpener,
  ) {}

  /** One entry of the audit names the operator and the person. */
  @Get(':actorId')
  async view(
    @Param('actorId') actorId: string,
    @CurrentCaller() operator: Caller,
  ): Promise<ViewedActor> {
    const person = await findPerson(actorId, { operator, action: 'viewAs' }, this);
    const tools = await this.served.loop.viewAs({
      ...(await this.served.termsOf(person)),
      operator,
    });
    const { actor } = person;
    const name: unknown = isRecord(actor) ? actor['name'] : undefined;
    return {
      actor: {
        id: actorId,
        ...(typeof name === 'string' && { name }),
        roles: this.identity.rolesOf(actor),
      },
      may: ROUTED_ACTIONS.filter((action) => this.operators.may(person, action)),
      tools: tools.map((tool) => this.described(tool)),
      runs: await this.streams.list(person, { limit: MOST_VIEWED }),
      waiting: await this.pending.inbox(person, { limit: MOST_VIEWED }),
    };
  }

  private described(tool: ToolExplanation): ViewedTool {
    const { description, effect, source, presentation } = this.catalog.describe(tool.declaredId);
    return { ...tool, description, effect, source, ...(presentation && { presentation }) };
  }
}

/**
 * Finds a person of an operator's tenant. Someone who may not look learns nothing of who there is.
 *
 * @throws {OperatorError} Where the operator lacks the permission.
 * @throws {NotFoundException} Where there is no one of this id.
 */
export async function findPerson(
  actorId: string,
  { operator, action }: { readonly operator: Caller; readonly action: OperatorAction },
  { operators, opener }: { readonly operators: Operators; readonly opener: RunOpener },
): Promise<Caller> {
  if (!operators.may(operator, action))
    await operators.use(operator, action, { details: { actorId: actorId.slice(0, 256) } });
  const actor = await opener.directory.find(actorId, operator.tenant);
  if (actor !== undefined) return { actor, tenant: operator.tenant };
  throw new NotFoundException({
    code: 'unknown_actor',
    message: `No actor of this tenant has the id ${JSON.stringify(actorId)}.`,
  });
}
