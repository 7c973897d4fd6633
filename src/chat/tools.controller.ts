import { Controller, Get, UseGuards } from '@nestjs/common';
import { ToolCatalog, ToolLoopService } from '@toolloop/core';
import type { ToolDescription } from '@toolloop/core/catalog';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { User } from '../identity/user.js';
import { termsFor } from '../policy.js';

interface ListedTool extends Pick<ToolDescription, 'id' | 'description' | 'effect' | 'inputSchema'> {
  readonly presentation: ToolDescription['presentation'] | undefined;
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
}
