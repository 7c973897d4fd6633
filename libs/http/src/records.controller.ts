import { Readable } from 'node:stream';
import {
  Body,
  Delete,
  Get,
  HttpCode,
  NotFoundException,
  Param,
  Post,
  Query,
  StreamableFile,
} from '@nestjs/common';
import { ConversationService } from '@toolloop/core';
import { AuditTrail, type SignedAuditHead } from '@toolloop/core/audit';
import { DirectiveService, type DirectiveView } from '@toolloop/core/directives';
import { Operators } from '@toolloop/core/internal';
import { UsageService, type UsageReport } from '@toolloop/core/usage';
import type { ConversationPage, ConversationSummary } from '@toolloop/protocol';
import { CallerController, CurrentCaller, NAMED_ONLY, STRICT } from './caller.js';
import type { Caller } from './http-options.js';
import { ListPages, type Pages } from './pages.js';
import {
  AuditFrom,
  ConversationFrom,
  DirectiveListing,
  Page,
  Redrive,
  StopRun,
  UsageSelection,
} from './requests.dto.js';

/** The conversations that a caller has had. */
@CallerController('conversations')
export class ConversationsController {
  constructor(private readonly conversations: ConversationService) {}

  @Get()
  list(
    @Query(STRICT) listing: Page,
    @CurrentCaller() caller: Caller,
    @ListPages() pages: Pages,
  ): Promise<readonly ConversationSummary[]> {
    return pages.of(
      listing,
      (page) => this.conversations.list(caller, page),
      ({ conversationId }) => ({ after: conversationId }),
    );
  }

  @Get(':conversationId')
  async read(
    @Param('conversationId') conversationId: string,
    @CurrentCaller() caller: Caller,
    @Query(NAMED_ONLY) { from }: ConversationFrom,
  ): Promise<ConversationPage> {
    const part = await this.conversations.read(
      conversationId,
      caller,
      from === undefined ? {} : { from: Number(from) },
    );
    if (part) return part;
    throw unknownConversation();
  }

  @Delete(':conversationId')
  @HttpCode(204)
  async delete(
    @Param('conversationId') conversationId: string,
    @CurrentCaller() caller: Caller,
  ): Promise<void> {
    if (!(await this.conversations.delete(conversationId, caller))) throw unknownConversation();
  }
}

function unknownConversation(): NotFoundException {
  return new NotFoundException({ code: 'not_found', message: 'There is no such conversation.' });
}

/**
 * Effects that were requested and take place later: a caller's own, and for operators of directives
 * those of all of their tenant.
 */
@CallerController('directives')
export class DirectivesController {
  constructor(private readonly directives: DirectiveService) {}

  @Get()
  list(
    @Query(NAMED_ONLY) listing: DirectiveListing,
    @CurrentCaller() caller: Caller,
    @ListPages() pages: Pages,
  ): Promise<readonly DirectiveView[]> {
    return pages.of(
      listing,
      (page) => this.directives.list(caller, page),
      ({ directiveId }) => ({ after: directiveId }),
    );
  }

  @Get(':directiveId')
  get(
    @Param('directiveId') directiveId: string,
    @CurrentCaller() caller: Caller,
  ): Promise<DirectiveView> {
    return this.directives.get(directiveId, caller);
  }

  @Post(':directiveId/cancel')
  @HttpCode(200)
  cancel(
    @Param('directiveId') directiveId: string,
    @Body(NAMED_ONLY) { reason }: StopRun,
    @CurrentCaller() caller: Caller,
  ): Promise<DirectiveView> {
    return this.directives.cancel(directiveId, caller, reason);
  }

  @Post(':directiveId/redrive')
  @HttpCode(200)
  redrive(
    @Param('directiveId') directiveId: string,
    @Body(NAMED_ONLY) finding: Redrive,
    @CurrentCaller() caller: Caller,
  ): Promise<DirectiveView> {
    return this.directives.redrive(directiveId, caller, finding);
  }
}

const DAY_MS = 86_400_000;
const DEFAULT_DAYS = 30;

/** The use of models and tools: callers see their own, and operators that of their tenant. */
@CallerController('usage')
export class UsageController {
  constructor(private readonly usage: UsageService) {}

  /** Reports the last 30 days of the caller's own tenant, unless the selection says otherwise. */
  @Get()
  async report(
    @Query(STRICT) selection: UsageSelection,
    @CurrentCaller() caller: Caller,
    @ListPages() pages: Pages,
  ): Promise<UsageReport> {
    const {
      to = dayOf(Date.now()),
      from = dayOf(Date.now() - DEFAULT_DAYS * DAY_MS),
      ...rest
    } = selection;
    const own = selection.everywhere !== true &&
      selection.tenant === undefined && { tenant: caller.tenant };
    const report = await this.usage.report({ ...rest, ...own, from, to }, caller);
    if (report.next !== undefined) pages.link({ from, to, after: report.next });
    return report;
  }
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** The audit of the operator's own tenant, for `toolloop audit verify`. It names every actor. */
@CallerController('audit')
export class AuditController {
  constructor(
    private readonly operators: Operators,
    private readonly trail?: AuditTrail,
  ) {}

  /** Streams the audit as JSON Lines, all of it or the entries from a sequence on. */
  @Get()
  async lines(
    @Query(STRICT) { from }: AuditFrom,
    @CurrentCaller() caller: Caller,
  ): Promise<StreamableFile> {
    const trail = await this.openedBy(caller);
    return new StreamableFile(Readable.from(trail.exportLines(caller.tenant, from)), {
      type: 'application/jsonl',
    });
  }

  /**
   * Answers with the signed head of the chain. Ask for it before the lines, since the chain grows.
   */
  @Get('head')
  async head(@CurrentCaller() caller: Caller): Promise<SignedAuditHead> {
    const trail = await this.openedBy(caller);
    return trail.exportHead(caller.tenant);
  }

  private async openedBy(caller: Caller): Promise<AuditTrail> {
    await this.operators.use(caller, 'audit');
    if (this.trail) return this.trail;
    throw new NotFoundException({ code: 'no_audit', message: 'This application keeps no audit.' });
  }
}
