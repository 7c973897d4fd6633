import { Module } from '@nestjs/common';
import { IdentityModule } from '../identity/identity.module.js';
import { DirectivesController } from './directives.controller.js';

@Module({ imports: [IdentityModule], controllers: [DirectivesController] })
export class DirectivesModule {}
