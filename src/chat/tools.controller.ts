import { Controller, Get, UseGuards } from '@nestjs/common';
import { ToolLoopService, type ToolSpec } from '@toolloop/core';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { User } from '../identity/user.js';
import { termsFor } from '../policy.js';

type ListedTool = Pick<ToolSpec, 'id' | 'description' | 'effect' | 'inputSchema'>;

/** What the user's model could call from the start. The tools of customers, orders and carts come with them. */
@Controller('tools')
@UseGuards(BearerGuard)
export class ToolsController {
  constructor(private readonly loop: ToolLoopService<User>) {}

  @Get()
  async list(@CurrentUser() user: User): Promise<ListedTool[]> {
    const tools = await this.loop.list(termsFor(user));
    return tools.map(({ id, description, effect, inputSchema }) => ({ id, description, effect, inputSchema }));
  }
}
