import { Controller, Get, UseGuards } from '@nestjs/common';
import { ToolLoopService, type ToolSpec } from '@toolloop/core';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { User } from '../identity/user.js';
import { termsFor } from '../policy.js';

type ListedTool = Pick<ToolSpec, 'id' | 'description' | 'effect' | 'inputSchema'>;

/** The tools that the user's model may call from the first step. Those of customers, orders and carts appear with them. */
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
