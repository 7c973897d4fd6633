import { Body, Controller, Get, HttpCode, HttpStatus, NotFoundException, Param, Post, Query, Res, UseGuards } from '@nestjs/common';
import { type CallExplanation, type JsonObject, ToolCatalog, type ToolExplanation, ToolLoopService } from '@toolloop/core';
import type { ToolDescription } from '@toolloop/core/catalog';
import type { CallResult } from '@toolloop/core/contracts';
import { IsObject, IsOptional, IsString } from 'class-validator';
import type { Response } from 'express';
import { IdempotencyKey, STRICT } from '../http/request-parameters.js';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { principalOf, type User, userWith } from '../identity/user.js';
import { termsFor } from '../policy.js';

interface ListedTool extends Pick<ToolDescription, 'id' | 'description' | 'effect' | 'inputSchema'> {
  readonly presentation: ToolDescription['presentation'] | undefined;
}

/** The arguments of a call that a person makes by hand. */
export class CallByHand {
  @IsOptional() @IsObject({ message: 'args must be an object' }) args?: JsonObject;
}

/** The tools that the user's model may call from the first step. Those of customers, orders and carts appear with them. */
@Controller('tools')
@UseGuards(BearerGuard)
export class ToolsController {
  constructor(
    private readonly loop: ToolLoopService<User>,
    private readonly catalog: ToolCatalog,
  ) {}

  @Get()
  async list(@CurrentUser() user: User): Promise<ListedTool[]> {
    const tools = await this.loop.list(termsFor(user));
    return tools.map(({ id, description, effect, inputSchema, declaredId }) => {
      const { presentation } = this.catalog.describe(declaredId);
      return { id, description, effect, inputSchema, presentation };
    });
  }

  /** Calls a tool by hand, with the arguments of a person: 202 for a call that waits for an approval, at which its run is resumed. What is wrong with the call is in its record. */
  @Post(':tool')
  @HttpCode(HttpStatus.OK)
  async call(
    @Param('tool') tool: string,
    @Body(STRICT) { args = {} }: CallByHand,
    @CurrentUser() user: User,
    @Res({ passthrough: true }) response: Response,
    @IdempotencyKey() requestId?: string,
  ): Promise<CallResult> {
    const made = await this.loop.call({
      tool,
      args,
      argsOrigin: 'actor',
      ...termsFor(user),
      ...(requestId !== undefined && { requestId }),
    });
    if (made.waiting) response.status(HttpStatus.ACCEPTED).location(`/runs/${made.runId}`);
    return made;
  }
}

/** The call to explain, or the user for whom the tool is explained. */
export class Explained {
  /** A user of the operator's own tenant. @default the operator */
  @IsOptional() @IsString() actorId?: string;
  @IsOptional() @IsString() runId?: string;
  @IsOptional() @IsString() toolCallId?: string;
}

/** Tells operators why a tool is offered, and what became of a call. */
@Controller('explain')
@UseGuards(BearerGuard)
export class ExplainController {
  constructor(private readonly loop: ToolLoopService<User>) {}

  @Get(':tool')
  async explain(
    @Param('tool') tool: string,
    @CurrentUser() user: User,
    @Query(STRICT) { runId, toolCallId, actorId = user.id }: Explained,
  ): Promise<ToolExplanation | CallExplanation> {
    const operator = principalOf(user);
    if (runId !== undefined && toolCallId !== undefined) return this.loop.explainCall({ runId, toolCallId, operator });
    const subject = userWith(actorId, user.tenantId);
    if (!subject) throw new NotFoundException(`No user of ${user.tenantId} has the id "${actorId}".`);
    return this.loop.explain(tool, { ...termsFor(subject), operator });
  }
}
