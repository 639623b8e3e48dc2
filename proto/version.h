/* version.h: the version of the socket protocol.
 *
 * Raised when a peer of the old version would misunderstand what it gets: a member that changes its
 * meaning, a method or member that is gone. New methods and new optional members in replies do not
 * raise it. Client and daemon of different versions refuse each other at hello. */
#ifndef PROTO_VERSION_H
#define PROTO_VERSION_H

#define PROTO_VERSION 1

#endif
