import { Module } from '@nestjs/common';
import { IdentityModule } from '../identity/identity.module.js';
import { ConversationsController } from './conversations.controller.js';

@Module({ imports: [IdentityModule], controllers: [ConversationsController] })
export class ConversationsModule {}
